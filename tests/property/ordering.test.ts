/**
 * In whatever order and however often deliveries arrive, alone, together or at once, the
 * tables end as if each event had been handled once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { assertEndState } from "./histories/end_state.ts";
import { eventsOf, history, renamed } from "./histories/history.ts";
import {
  caseCount,
  checkProperty,
  seededRandom,
  shuffled,
} from "../support/random.ts";
import { apply, deliverTogether } from "./sql_delivery.ts";
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

Deno.test("billing_apply_events() ends in the state of the order of occurrence", async () => {
  const property = fc.asyncProperty(
    histories(TOGETHER),
    fc.integer(),
    async (those, order) => {
      const queues = those.map(({ deliveries }) => deliveries);
      await deliverTogether(queues, { sql, random: seededRandom(order) });
      await assertEndState({ events: eventsOf(those) }, sql);
    },
  );
  await checkProperty(property, { numRuns: 10, endOnFailure: true });
});

type Generated<T> = T extends fc.Arbitrary<infer V> ? V : never;

/** An event of a format in which updates and ends make the record, too. */
const reporting = fc.record({
  kind: fc.constantFrom<"creation" | "deletion" | "update">(
    "deletion",
    "update",
    "update",
    "update",
  ),
  status: fc.constantFrom("active", "past_due", "unpaid", "canceled"),
  namesAccount: fc.boolean(),
  isWhole: fc.boolean(),
});
type Reporting = Generated<typeof reporting>;

/** Each event has a plan and, if it names one, an account of its own. */
const planOf = (i: number) => `plan_${i}`;
const accountOf = (i: number) => `acc_${i}`;
const ACCOUNT_OF_ENDS = "acc_of_ends";

/** Returns what the record is after events in the order in which they occurred. */
function recordAfter(events: readonly Reporting[]) {
  const all = events.map((event, i) => ({ ...event, i }));
  const changes = all.filter(({ kind }) => kind !== "deletion");
  const report = changes.at(-1) ?? all.findLast(({ isWhole }) => isWhole)!;
  const named = changes.findLast(({ namesAccount }) => namesAccount);
  const last = all.at(-1)!;
  return {
    account_id: named ? accountOf(named.i) : ACCOUNT_OF_ENDS,
    plan_id: planOf(report.i),
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

/** The events of a subscription, at least one of which can make the record. */
const reportingLife = fc.record({
  others: fc.array(reporting, { maxLength: 6 }),
  whole: reporting.map((event) => ({
    ...event,
    namesAccount: true,
    isWhole: true,
  })),
  isCreated: fc.boolean(),
  order: fc.integer(),
}).map(({ others, whole, isCreated, order }) => {
  const random = seededRandom(order);
  const events: Reporting[] = shuffled([...others, whole], random);
  if (isCreated) {
    events[0] = { ...events[0]!, kind: "creation", namesAccount: true };
  }
  // Nothing tells which of several ends the report of the record came from.
  const isOnlyEnds = events.every(({ kind }) => kind === "deletion");
  return {
    events: events.map((event) =>
      isOnlyEnds ? { ...event, isWhole: true } : event
    ),
    random,
  };
});

/** The first event occurs then, in milliseconds, and the others in the next ones. */
const START = 1.8e12;

function reportingWire(events: readonly Reporting[], subscription_id: string) {
  return events.map(({ kind, status, namesAccount, isWhole }, i) => {
    const report = { plan_id: planOf(i), provider_status: status };
    const common = {
      provider: "a",
      event_id: `${subscription_id}/${i}`,
      type: kind,
      occurred_at: new Date(START + i).toISOString(),
      subscription_id,
    };
    if (kind === "deletion") {
      return {
        ...common,
        kind,
        report: isWhole ? report : {},
        account_id: ACCOUNT_OF_ENDS,
      };
    }
    return {
      ...common,
      kind: kind === "update" ? "opening_update" : kind,
      report,
      account_id: namesAccount ? accountOf(i) : null,
    };
  });
}

Deno.test("updates and ends that make the record leave the same one in any order", async () => {
  const property = fc.asyncProperty(
    reportingLife,
    async ({ events, random }) => {
      const id = crypto.randomUUID();
      const wire = reportingWire(events, id);
      let waiting = shuffled([...wire, ...wire.slice(1)], random);
      for (let calls = 0; waiting.length > 0; calls++) {
        assert(calls < MOST_CALLS, "Deliveries do not get through");
        const sent = waiting.slice(0, Math.ceil(random() * 3))
          .map((event, place) => ({ ...event, place }));
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
    },
  );
  await checkProperty(property, { numRuns: caseCount(150) });
});

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
          const failed = await apply(waiting.slice(0, length), sql);
          waiting = [...waiting.slice(length), ...failed];
        }
      }));
      await assertEndState({ events }, sql);
    },
  );
  await checkProperty(property, { numRuns: 15, endOnFailure: true });
});
