/**
 * In whatever order and however often deliveries arrive, alone, together or at once, the
 * tables end as if each event had been handled once, in the order of occurrence.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import type { JSONValue } from "postgres";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { invoiceEvent } from "../../scripts/events/templates.ts";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/database/apply_events.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";
import { history, renamed } from "./histories/history.ts";
import { type HistoryEvent, modelState } from "./histories/model.ts";
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

function eventBody(event: HistoryEvent): object {
  const { type, account, namesAccount, values, ...rest } = event;
  if (type === "invoice.payment_failed") {
    return invoiceEvent({ ...rest, account, customer: values.customer });
  }
  return subscriptionEvent(type, {
    ...rest,
    account: namesAccount ? account : null,
    ...values,
  });
}

/** Events come again, and take longer to make and read than to apply. */
const read = new WeakMap<HistoryEvent, BillingEvent>();

function wireEvent(event: HistoryEvent): BillingEvent {
  const known = read.get(event);
  if (known) return known;
  const parsed = parseEvent(JSON.stringify(eventBody(event)), {
    format: stripe,
    nowSeconds: event.created,
    toleranceSeconds: 0,
    notify: new Set(["payment_failed"]),
  });
  if (parsed.isIgnored) throw new Error(`${event.type} is not handled`);
  const wire = { provider: "a", ...parsed.event };
  read.set(event, wire);
  return wire;
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

async function assertEndState(events: readonly HistoryEvent[]): Promise<void> {
  const expected = modelState(events);
  const eventIds = sql.json(events.map((event) => event.id));
  const recordIds = sql.json([...expected.records.keys()]);
  const [actual] = await sql<{ state: unknown }[]>`
    with ids as (
      select 'a' as provider, jsonb_array_elements_text(${eventIds}) as event_id
    )
    select jsonb_build_object(
      'records', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'id', s.id,
          'account_id', s.account_id,
          'status', s.status,
          'plan_id', s.plan_id,
          'current_period_end', extract(epoch from s.current_period_end)::bigint,
          'provider_status', s.provider_status,
          'customer_id', s.customer_id,
          'quantity', s.quantity,
          'items', s.items,
          'cancel_at', extract(epoch from s.cancel_at)::bigint,
          'trial_end', extract(epoch from s.trial_end)::bigint,
          'past_due_since', extract(epoch from s.past_due_since)::bigint,
          'had_trial', s.had_trial,
          'canceled', s.canceled_at is not null
        ) order by s.id), '[]')
        from billing.subscriptions s
        where s.id in (select jsonb_array_elements_text(${recordIds}))
      ),
      'notifications', (
        select coalesce(jsonb_agg(jsonb_build_array(n.event_id, n.account_id) order by n.event_id), '[]')
        from billing.notifications n join ids using (provider, event_id)
      ),
      'ledger', (
        select count(*) from billing.processed_events p join ids using (provider, event_id)
      ),
      'open_failures', (
        select count(*) from billing.failed_events f join ids using (provider, event_id)
        where f.resolved_at is null
      )
    ) as state`;

  assertEquals<unknown>(actual?.state, {
    records: [...expected.records.values()].sort(byId),
    notifications: [...expected.notifications].sort(),
    ledger: events.length,
    open_failures: 0,
  });
}

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence", async () => {
  const property = fc.asyncProperty(
    histories(TOGETHER),
    fc.integer(),
    async (those, order) => {
      const queues = those.map(({ deliveries }) => deliveries);
      await deliverTogether(queues, seededRandom(order));
      await assertEndState(those.flatMap(({ events }) => events));
    },
  );
  await checkProperty(property, { numRuns: 10, endOnFailure: true });
});

async function leftBy(events: readonly AnyEvent[], lengths: readonly number[]) {
  const prefix = crypto.randomUUID();
  const wire = events.map((event, i) => wireOf(event, { prefix, i }));
  for (const length of lengths) {
    const sent = wire.splice(0, length)
      .map((event, place) => ({ ...event, place }));
    await sql`select public.billing_apply_events(${sql.json(sent)})`;
  }

  const rows = await rowsOf(prefix, sql);
  assertStringIncludes(rows, '"applied"');
  return rows;
}

Deno.test("an array of events leaves what they leave one by one", async () => {
  const property = fc.asyncProperty(
    anyEvents,
    fc.integer(),
    async (events, order) => {
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
      const events = those.flatMap(({ events }) => events);
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
      await assertEndState(events);
    },
  );
  await checkProperty(property, { numRuns: 15, endOnFailure: true });
});
