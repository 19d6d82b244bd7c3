/**
 * Arrays over many connections at once, with the same events in different
 * orders, as several isolates of the receiver would send them: no deadlock, and
 * the end state is that of the order of occurrence.
 *
 * @module
 */
import { assert } from "@std/assert";
import fc from "fast-check";
import postgres from "postgres";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { setting } from "../support/test_environment.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import {
  history,
  type HistoryEvent,
  renamed,
} from "../support/histories/history.ts";
import { wireEvent } from "../support/histories/wire_event.ts";

const ROUNDS = 30;
const HISTORIES = 8;
const CONNECTIONS = 8;
const MOST_TOGETHER = 40;

Deno.test("billing_apply_events() neither deadlocks nor loses under overlapping arrays at once", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const run = crypto.randomUUID().slice(0, 8);
  const sql = postgres(setting("TEST_DATABASE_URL"), {
    max: CONNECTIONS,
    connection: { synchronous_commit: "off" },
  });
  let arrays = 0;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const histories = fc
        .sample(history, { seed: seed + round, numRuns: HISTORIES })
        .map((generated, i) => renamed(generated, `${run}_${round}_${i}`));
      const events = histories.flatMap((each) => [...each.events]);
      // Every connection sends all of them, cut and shuffled in its own way; in
      // every other round they are dealt out instead, so that what arrays have
      // in common is not events but subscriptions.
      const isDealt = round % 2 === 1;
      await Promise.all(Array.from({ length: CONNECTIONS }, async (_, lane) => {
        let waiting = shuffled(
          isDealt ? events.filter((_, i) => i % CONNECTIONS === lane) : events,
          random,
        );
        while (waiting.length > 0) {
          const length = 1 + Math.floor(random() * MOST_TOGETHER);
          const together = waiting.slice(0, length);
          const failed = await deliverTogether(together, sql);
          waiting = [...waiting.slice(length), ...failed];
          arrays++;
        }
      }));
      await assertEndState({ events }, sql);
    }
  } finally {
    await sql.end();
  }
  assert(arrays > ROUNDS * CONNECTIONS);
  console.log(`${arrays} arrays over ${CONNECTIONS} connections, seed ${seed}`);
});

/** Makes one call, and answers with the events that failed in it. */
async function deliverTogether(
  events: readonly HistoryEvent[],
  sql: postgres.Sql,
): Promise<HistoryEvent[]> {
  const rows = await sql<{ place: number; outcome: string }[]>`
    select place, outcome
    from public.billing_apply_events(${
    sql.json(events.map(wireEvent) as never)
  })`;
  return rows
    .filter(({ outcome }) => outcome === "failed")
    .map(({ place }) => events[place - 1] as HistoryEvent);
}
