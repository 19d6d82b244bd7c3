/**
 * In whatever order and however often deliveries arrive, alone or together, one
 * after the other or at once, the tables end as if each event had been handled
 * once, in the order of occurrence.
 */
import { assert } from "@std/assert";
import fc from "fast-check";
import { assertEndState } from "./histories/end_state.ts";
import { eventsOf, history, renamed } from "./histories/history.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { apply, deliverTogether } from "./sql_delivery.ts";
import { connect } from "../support/tables.ts";

/** As many as the receiver sends together; they have nothing in common. */
const TOGETHER = 50;
const CONNECTIONS = 8;
const MOST_CALLS = 2_000;

const sql = connect(CONNECTIONS);
Deno.test.afterAll(() => sql.end());

/** Random histories, with ids of their own. */
function histories(most: number) {
  return fc.array(history, { minLength: 1, maxLength: most, size: "max" })
    .map((generated) => {
      const prefix = crypto.randomUUID().slice(0, 8);
      return generated.map((each, i) => renamed(each, `${prefix}_${i}`));
    });
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence", () =>
  fc.assert(
    fc.asyncProperty(histories(TOGETHER), async (those) => {
      await deliverTogether(those.map(({ deliveries }) => deliveries), sql);
      await assertEndState({ events: eventsOf(those) }, sql);
    }),
    { seed: freshSeed(), numRuns: 10 },
  ));

Deno.test("billing_apply_events() neither deadlocks nor loses under overlapping arrays at once", async () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
  await fc.assert(
    fc.asyncProperty(
      histories(CONNECTIONS),
      fc.boolean(),
      fc.integer(),
      async (those, isDealt, order) => {
        const random = seededRandom(order);
        const events = eventsOf(those);
        // Every connection sends all of them, cut and shuffled in its own way; or
        // they are dealt out, so that what arrays have in common is not events
        // but subscriptions.
        await Promise.all(Array.from({ length: CONNECTIONS }, async (_, i) => {
          let waiting = shuffled(
            isDealt ? events.filter((_, j) => j % CONNECTIONS === i) : events,
            random,
          );
          for (let calls = 0; waiting.length > 0; calls++) {
            assert(calls < MOST_CALLS, "Deliveries do not get through");
            const length = Math.ceil(random() ** 2 * TOGETHER);
            const failed = await apply(waiting.slice(0, length), sql);
            waiting = [...waiting.slice(length), ...failed];
          }
        }));
        await assertEndState({ events }, sql);
      },
    ),
    { seed, numRuns: 15, endOnFailure: true },
  );
});
