/**
 * In whatever order and however often deliveries arrive, alone or together, one
 * after the other or at once, the tables end as if each event had been handled
 * once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
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

/** What a provider says in whose format updates and ends make the record, too. */
const said = fc.record({
  kind: fc.constantFrom("creation", "deletion", "update", "update"),
  status: fc.constantFrom("active", "trialing", "unpaid", "canceled"),
  namesAccount: fc.boolean(),
  isWhole: fc.boolean(),
});
type Said = typeof said extends fc.Arbitrary<infer T> ? T : never;

/** Returns what the record is after events in the order in which they occurred. */
function recordAfter(events: readonly Said[]) {
  const all = events.map((event, i) => ({ ...event, plan: `P${i}`, i }));
  const changes = all.filter(({ kind }) => kind !== "deletion");
  const whole = all.filter(({ kind, isWhole }) =>
    kind !== "deletion" || isWhole
  );
  const report = (changes.at(-1) ?? whole.at(-1))!;
  const named = changes.findLast(({ namesAccount }) => namesAccount);
  const last = all.at(-1)!;
  return {
    account_id: named ? `A${named.i}` : "A of the end",
    plan_id: report.plan,
    provider_status: report.status,
    status: {
      creation: "active",
      update: last.status,
      deletion: "canceled",
    }[last.kind],
    is_ended: all.some(({ kind, status }) =>
      kind === "deletion" || kind === "update" && status === "canceled"
    ),
  };
}

Deno.test("updates and ends that make the record leave the same one in any order", async () => {
  const lives = fc.tuple(
    fc.array(said, { maxLength: 6 }),
    said.map((one) => ({ ...one, namesAccount: true, isWhole: true })),
    fc.integer(),
  ).map(([others, one, order]) => {
    const random = seededRandom(order);
    return { events: shuffled([...others, one], random), random };
  });
  const property = fc.asyncProperty(lives, async ({ events, random }) => {
    const id = crypto.randomUUID();
    const wire = events.map(({ kind, status, namesAccount, isWhole }, i) => {
      const isEnd = kind === "deletion";
      const report = { plan_id: `P${i}`, provider_status: status };
      return {
        ...{ provider: "a", event_id: `${id}/${i}`, type: kind },
        kind: kind === "update" ? "opening_update" : kind,
        occurred_at: new Date(1.8e12 + i).toISOString(),
        subscription_id: id,
        report: isEnd && !isWhole ? {} : report,
        account_id: isEnd ? "A of the end" : namesAccount ? `A${i}` : null,
      };
    });
    let waiting = shuffled([...wire, ...wire.slice(1)], random);
    for (let calls = 0; waiting.length > 0; calls++) {
      assert(calls < MOST_CALLS, "Deliveries do not get through");
      const sent = waiting.slice(0, Math.ceil(random() * 3))
        .map((event, place) => ({ place, ...event }));
      const failed = await sql<{ place: number }[]>`
        select place from public.billing_apply_events(${sql.json(sent)})
        where outcome = 'failed'`;
      const again = failed.map(({ place }) => sent[place]!);
      waiting = [...waiting.slice(sent.length), ...again];
    }
    const [record] = await sql`
      select account_id, plan_id, provider_status, status,
        canceled_at is not null as is_ended
      from billing.subscriptions where id = ${id}`;
    assertEquals<unknown>({ ...record }, recordAfter(events));
  });
  await fc.assert(property, { seed: freshSeed(), numRuns: 150 });
});

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
