/**
 * In whatever order and however often deliveries arrive, alone, together or at once, the
 * tables end as if each event had been handled once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { JSONValue } from "postgres";
import { assertEndState } from "./histories/end_state.ts";
import { wireEvent } from "./histories/event_body.ts";
import {
  eventsOf,
  history,
  type HistoryEvent,
  renamed,
} from "./histories/history.ts";
import {
  caseCount,
  checkProperty,
  seededRandom,
  shuffled,
} from "../support/random.ts";
import { recordFailure } from "../support/queues.ts";
import { connect } from "../support/tables.ts";

/** As many as the receiver sends together; they have nothing in common. */
const TOGETHER = 50;
const CONNECTIONS = 8;
const MOST_CALLS = 2_000;

const sql = connect(CONNECTIONS);
Deno.test.afterAll(() => sql.end());

function histories(most: number) {
  return fc.array(history, { minLength: 1, maxLength: most, size: "max" })
    .map((generated) => {
      const prefix = crypto.randomUUID().slice(0, 8);
      return generated.map((each, i) => renamed(each, `${prefix}_${i}`));
    });
}

/** More than a history has deliveries: by then, its creation has had its turn. */
const MOST_IDLE_ROUNDS = 200;

/**
 * Delivers the first few of every queue in one call, then the next, and so on,
 * and what fails again at the end of its queue, as a provider would. The queues
 * must have no subscription in common.
 */
async function deliverTogether(
  queues: readonly (readonly HistoryEvent[])[],
  random: () => number,
): Promise<void> {
  let waiting = queues.map((queue) => [...queue]);
  let idleRounds = 0;

  while (waiting.length > 0) {
    const sent = waiting.map((queue) =>
      queue.splice(0, Math.ceil(random() ** 2 * 4))
    );
    const batch = sent.flat();
    const failed = await apply(batch);
    for (const event of failed) {
      waiting[sent.findIndex((part) => part.includes(event))]!.push(event);
    }
    waiting = waiting.filter((queue) => queue.length > 0);

    idleRounds = failed.length < batch.length ? 0 : idleRounds + 1;
    if (idleRounds > MOST_IDLE_ROUNDS) {
      throw new Error("Deliveries do not get through");
    }
  }
}

/** Makes one call, and stores and returns the events that failed. */
async function apply(
  events: readonly HistoryEvent[],
): Promise<HistoryEvent[]> {
  const sent = events.map((event, i) => ({
    place: i + 1,
    ...wireEvent(event),
  }));
  const rows = await sql<{ place: number; error_code: string }[]>`
    select place, error_code
    from public.billing_apply_events(${sql.json(sent as unknown as JSONValue)})
    where outcome = 'failed'`;

  return await Promise.all(rows.map(async ({ place, error_code }) => {
    const event = events[place - 1]!;
    if (error_code === "40P01") throw new Error(`Deadlock at ${event.id}`);
    const failure = { event_id: event.id, error_code, type: event.type };
    await recordFailure(sql, failure).catch((error) => {
      // Another call has the event: the receiver answers 503, too.
      if (error.code !== "55P03") throw error;
    });
    return event;
  }));
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence", async () => {
  const property = fc.asyncProperty(
    histories(TOGETHER),
    fc.integer(),
    async (those, order) => {
      const queues = those.map(({ deliveries }) => deliveries);
      await deliverTogether(queues, seededRandom(order));
      await assertEndState({ events: eventsOf(those) }, sql);
    },
  );
  await checkProperty(property, { numRuns: 10, endOnFailure: true });
});

type Generated<T> = T extends fc.Arbitrary<infer V> ? V : never;

/** Any event of one of three subscriptions, two of which have a customer in common. */
const anyEvent = fc.record({
  kind: fc.constantFrom(
    "creation",
    "update",
    "update",
    "update",
    "deletion",
    "opening_update",
    "payment_failed",
    "checkout",
  ),
  of: fc.nat({ max: 2 }),
  /** Seconds; few, so that some are the same. */
  at: fc.option(fc.integer({ min: 0, max: 5 }), { freq: 4, nil: undefined }),
  status: fc.constantFrom("active", "past_due", "unpaid", "trialing"),
  was: fc.option(fc.constantFrom("active", "past_due", "unpaid")),
  namesAccount: fc.boolean(),
  isWhole: fc.boolean(),
  invoice: fc.constantFrom("in_1", "in_2"),
});
type AnyEvent = Generated<typeof anyEvent>;

function wireOf(event: AnyEvent, { prefix, i }: { prefix: string; i: number }) {
  const { kind, of, at, status, was, namesAccount, isWhole, invoice } = event;
  const isChange = /creation|update/.test(kind) ||
    kind === "deletion" && isWhole;
  return {
    provider: "a",
    event_id: `${prefix}_${i}`,
    type: kind,
    kind,
    occurred_at: at === undefined
      ? null
      : new Date(1.6e12 + at * 1000).toISOString(),
    subscription_id: kind === "checkout" ? null : `${prefix}_sub${of}`,
    account_id: namesAccount || kind === "checkout" ? `acc_${i}` : null,
    report: {
      customer_id: `${prefix}_cus${Math.min(of, 1)}`,
      ...(isChange && { plan_id: `plan_${i}`, provider_status: status }),
    },
    previous: kind === "update" && was !== null
      ? { provider_status: was }
      : null,
    payment: kind === "payment_failed"
      ? { invoice_id: `${prefix}_${invoice}`, once_per_invoice: true }
      : { kind: kind === "deletion" ? "ended" : "recovered" },
  };
}

/** Delivers events in calls of these lengths; returns all that they left. */
async function leftBy(events: readonly AnyEvent[], lengths: readonly number[]) {
  const prefix = crypto.randomUUID();
  const wire = events.map((event, i) => wireOf(event, { prefix, i }));
  for (const length of lengths) {
    const sent = wire.splice(0, length)
      .map((event, place) => ({ ...event, place }));
    await sql`select public.billing_apply_events(${sql.json(sent)})`;
  }

  const [left] = await sql<{ left: string }[]>`
    select jsonb_build_object(
      'records', (
        select jsonb_agg(to_jsonb(s) order by s.id) from billing.subscriptions s
        where starts_with(s.id, ${prefix})
      ),
      'outcomes', (
        select jsonb_agg(jsonb_build_array(p.event_id, p.outcome) order by p.event_id)
        from billing.processed_events p where starts_with(p.event_id, ${prefix})
      ),
      'customers', (
        select jsonb_agg(jsonb_build_array(c.customer_id, c.account_id) order by c.customer_id)
        from billing.customers c where starts_with(c.customer_id, ${prefix})
      ),
      'notifications', (
        select jsonb_agg(jsonb_build_array(n.event_id, n.kind, n.account_id) order by n.event_id)
        from billing.notifications n where starts_with(n.event_id, ${prefix})
      )
    )::text as left`;

  // The times at which events were handled.
  const now = RegExp(`"${new Date().getUTCFullYear()}-[^"]*"`, "g");
  return left!.left.replaceAll(prefix, "").replaceAll(now, '"now"');
}

Deno.test("an array of events leaves what they leave one by one", async () => {
  const property = fc.asyncProperty(
    fc.array(anyEvent, { minLength: 2, maxLength: 12, size: "max" }),
    fc.integer(),
    async (all, order) => {
      // What fails before its record is there comes again, after others.
      const births = [0, 1, 2].map((of) => ({
        ...all[0]!,
        of,
        kind: "creation" as const,
        namesAccount: true,
      }));
      const events = [...births, ...all];
      const random = seededRandom(order);
      const lengths = events.map(() => Math.ceil(random() * 6));
      assertEquals(
        await leftBy(events, lengths),
        await leftBy(events, events.map(() => 1)),
      );
    },
  );
  await checkProperty(property, { numRuns: caseCount(150) });
});

Deno.test("billing_apply_events() neither deadlocks nor loses under overlapping arrays at once", async () => {
  const property = fc.asyncProperty(
    histories(CONNECTIONS),
    fc.boolean(),
    fc.integer(),
    async (those, isDealt, order) => {
      const random = seededRandom(order);
      const events = eventsOf(those);
      // Every connection sends all of them, cut and shuffled in its own way; or they
      // are dealt out, so that arrays have subscriptions in common, but no events.
      await Promise.all(Array.from({ length: CONNECTIONS }, async (_, i) => {
        const sent = isDealt
          ? events.filter((_, j) => j % CONNECTIONS === i)
          : events;
        let waiting = shuffled(sent, random);
        for (let calls = 0; waiting.length > 0; calls++) {
          assert(calls < MOST_CALLS, "Deliveries do not get through");
          const length = Math.ceil(random() ** 2 * TOGETHER);
          const failed = await apply(waiting.slice(0, length));
          waiting = [...waiting.slice(length), ...failed];
        }
      }));
      await assertEndState({ events }, sql);
    },
  );
  await checkProperty(property, { numRuns: 15, endOnFailure: true });
});
