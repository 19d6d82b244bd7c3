/**
 * In whatever order and however often deliveries arrive, alone, together or at once, the
 * tables end as if each event had been handled once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";
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
type Reporting = typeof reporting extends fc.Arbitrary<infer T> ? T : never;

/** Each event has a plan and, if it names one, an account of its own. */
const planOf = (i: number) => `plan_${i}`;
const accountOf = (i: number) => `acc_${i}`;
const ACCOUNT_OF_ENDS = "acc_of_ends";

const UNPAID = /^(past_due|unpaid)$/;

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

/**
 * Compares since when it is past due, and when it recovered, with the events in the
 * order in which they occurred. As they do not say what they replaced, either may be that
 * of a later report if there was an earlier one of its kind, or be lost once it is over.
 */
function assertDates(
  { since, recovered }: { since: number | null; recovered: number | null },
  events: readonly Reporting[],
): void {
  const changes = events.map((event, i) => ({ ...event, i }))
    .filter(({ kind }) => kind !== "deletion");
  const newest = changes.at(-1);

  const isDue = newest?.status === "past_due";
  assertEquals(since !== null, isDue);
  if (isDue) {
    const other = changes.findLast(({ status }) => status !== "past_due");
    const due = changes.filter(({ status }) => status === "past_due");
    const first = due.find(({ i }) => i > (other?.i ?? -1))!.i;
    assert(first <= since! && since! <= newest.i, `past due since ${since}`);
    if (first === due[0]!.i) assertEquals(since, first);
  }

  const unpaid = changes.findLast(({ status }) => UNPAID.test(status));
  const paid = changes.filter(({ status, kind }) =>
    status === "active" && kind === "update"
  );
  const first = paid.find(({ i }) => i > (unpaid?.i ?? -1))?.i;
  const isCreated = events[0]!.kind === "creation";
  const message = `recovered at ${recovered}`;
  if (unpaid === undefined) {
    assertEquals(recovered, isCreated ? null : first ?? null);
  } else if (newest?.status === "active" && first !== undefined) {
    const latest = paid.at(-1)!.i;
    assert(first <= recovered! && recovered! <= latest, message);
    if (first === paid[0]!.i && !isCreated) assertEquals(recovered, first);
  } else if (first === undefined) {
    assert((recovered ?? -1) < unpaid.i, message);
  }
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

      const millisecond = (column: string) =>
        sql`round(extract(epoch from ${sql(column)}) * 1000 - ${START})::int`;
      const [row] = await sql`
        select account_id, plan_id, provider_status, status,
          canceled_at is not null as is_ended,
          ${millisecond("past_due_since")} as since,
          ${millisecond("recovered_as_of")} as recovered
        from billing.subscriptions where id = ${id}`;
      const { since, recovered, ...record } = row!;
      assertEquals<unknown>(record, recordAfter(events));
      assertDates({ since, recovered }, events);
    },
  );
  await checkProperty(property, { numRuns: caseCount(150) });
});

/** Delivers events in calls of these lengths; returns all that they left. */
async function leftBy(events: readonly AnyEvent[], lengths: readonly number[]) {
  const prefix = crypto.randomUUID();
  const wire = events.map((event, i) => wireOf(event, { prefix, i }));
  for (const length of lengths) {
    const sent = wire.splice(0, length)
      .map((event, place) => ({ ...event, place }));
    await sql`select public.billing_apply_events(${sql.json(sent)})`;
  }

  return await rowsOf(prefix, sql);
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
