/**
 * In whatever order and however often deliveries arrive, alone or together, one
 * after the other or at once, the tables end as if each event had been handled
 * once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { assertEndState } from "./histories/end_state.ts";
import { eventsOf, history, renamed } from "./histories/history.ts";
import {
  caseCount,
  freshSeed,
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

/** Random histories, with ids of their own. */
function histories(most: number) {
  return fc.array(history, { minLength: 1, maxLength: most, size: "max" })
    .map((generated) => {
      const prefix = crypto.randomUUID().slice(0, 8);
      return generated.map((each, i) => renamed(each, `${prefix}_${i}`));
    });
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence", async () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
  const property = fc.asyncProperty(
    histories(TOGETHER),
    fc.integer(),
    async (those, order) => {
      const queues = those.map(({ deliveries }) => deliveries);
      const random = seededRandom(order);
      await deliverTogether(queues, { sql, random });
      await assertEndState({ events: eventsOf(those) }, sql);
    },
  );
  await fc.assert(property, { seed, numRuns: 10, endOnFailure: true });
});

/** What a provider says in whose format updates and ends make the record, too. */
const said = fc.record({
  kind: fc.constantFrom("deletion", "update", "update", "update"),
  status: fc.constantFrom("active", "past_due", "unpaid", "canceled"),
  namesAccount: fc.boolean(),
  isWhole: fc.boolean(),
});
type Said =
  & Omit<typeof said extends fc.Arbitrary<infer T> ? T : never, "kind">
  & {
    readonly kind: string;
  };

const UNPAID = /^(past_due|unpaid)$/;

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

/**
 * Compares since when it is past due, and when it recovered, with the events in the
 * order in which they occurred. As they do not say what they replaced, either may be that
 * of a later report if there was an earlier one of its kind, or be lost once it is over.
 */
function assertDates(
  { since, recovered }: { since: number | null; recovered: number | null },
  events: readonly Said[],
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
  if (unpaid === undefined) {
    assertEquals(recovered, isCreated ? null : first ?? null);
  } else if (newest?.status === "active" && first !== undefined) {
    const latest = paid.at(-1)!.i;
    assert(
      first <= recovered! && recovered! <= latest,
      `recovered at ${recovered}`,
    );
    if (first === paid[0]!.i && !isCreated) assertEquals(recovered, first);
  } else if (first === undefined) {
    assert((recovered ?? -1) < unpaid.i, `recovered at ${recovered}`);
  }
}

Deno.test("updates and ends that make the record leave the same one in any order", async () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
  const whole = said.map((one) => ({
    ...one,
    namesAccount: true,
    isWhole: true,
  }));
  const lives = fc.record({
    others: fc.array(said, { maxLength: 6 }),
    one: whole,
    isCreated: fc.boolean(),
    order: fc.integer(),
  }).map(({ others, one, isCreated, order }) => {
    const random = seededRandom(order);
    const [first, ...rest]: Said[] = shuffled([...others, one], random);
    const creation = { ...first!, kind: "creation", namesAccount: true };
    const events = [isCreated ? creation : first!, ...rest];
    // Nothing tells which of several ends the report of the record came from.
    const isOnlyEnds = events.every(({ kind }) => kind === "deletion");
    return {
      events: isOnlyEnds
        ? events.map((end) => ({ ...end, isWhole: true }))
        : events,
      random,
    };
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
        .map((event, place) => ({ ...event, place }));
      const failed = await sql<{ place: number }[]>`
        select place from public.billing_apply_events(${sql.json(sent)})
        where outcome = 'failed'`;
      const again = failed.map(({ place }) => sent[place]!);
      waiting = [...waiting.slice(sent.length), ...again];
    }
    const [row] = await sql`
      select account_id, plan_id, provider_status, status,
        canceled_at is not null as is_ended,
        round(extract(epoch from past_due_since) * 1000 - 1.8e12)::int as since,
        round(extract(epoch from recovered_as_of) * 1000 - 1.8e12)::int
          as recovered
      from billing.subscriptions where id = ${id}`;
    const { since, recovered, ...record } = row!;
    assertEquals<unknown>(record, recordAfter(events));
    assertDates({ since, recovered }, events);
  });
  await fc.assert(property, { seed, numRuns: caseCount(150) });
});

/** Any event of one of three subscriptions, two of which have a customer in common. */
const anyEvent = fc.record({
  kind: fc.constantFrom(
    ...["creation", "update", "update", "update", "deletion", "opening_update"],
    ...["payment_failed", "checkout"],
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
type AnyEvent = typeof anyEvent extends fc.Arbitrary<infer T> ? T : never;

/** Returns an event on the wire, with IDs that begin so. */
function wireOf(event: AnyEvent, { prefix, i }: { prefix: string; i: number }) {
  const { kind, of, at, status, was, namesAccount, isWhole, invoice } = event;
  const customer_id = `${prefix}_cus${Math.min(of, 1)}`;
  const account_id = `acc${i}`;
  const isChange = /creation|update/.test(kind) ||
    kind === "deletion" && isWhole;
  return {
    ...{ provider: "a", event_id: `${prefix}_${i}`, type: kind, kind },
    occurred_at: at === undefined
      ? null
      : new Date(1.6e12 + at * 1000).toISOString(),
    subscription_id: kind === "checkout" ? null : `${prefix}_sub${of}`,
    account_id: namesAccount || kind === "checkout" ? account_id : null,
    report: {
      customer_id,
      ...(isChange && { plan_id: `P${i}`, provider_status: status }),
    },
    previous: kind === "update" && was !== null
      ? { provider_status: was }
      : null,
    payment: kind === "payment_failed"
      ? { invoice_id: `${prefix}_${invoice}`, once_per_invoice: true }
      : { kind: kind === "deletion" ? "ended" : "recovered" },
  };
}

/** Delivers events in calls of so many; returns all that they left. */
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
      'told', (
        select jsonb_agg(jsonb_build_array(n.event_id, n.kind, n.account_id) order by n.event_id)
        from billing.notifications n where starts_with(n.event_id, ${prefix})
      )
    )::text as left`;
  // When it was handled.
  const now = RegExp(`"${new Date().getUTCFullYear()}-[^"]*"`, "g");
  return left!.left.replaceAll(prefix, "").replaceAll(now, '"now"');
}

Deno.test("an array of events leaves what they leave one by one", async () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
  const property = fc.asyncProperty(
    fc.array(anyEvent, { minLength: 2, maxLength: 12, size: "max" }),
    fc.integer(),
    async (all, order) => {
      const random = seededRandom(order);
      // What fails before its record is there comes again, after others.
      const births = [0, 1, 2].map((of) => ({
        ...all[0]!,
        ...{ of, kind: "creation", namesAccount: true },
      }));
      const events = [...births, ...all];
      const lengths = events.map(() => Math.ceil(random() * 6));
      assertEquals(
        await leftBy(events, lengths),
        await leftBy(events, events.map(() => 1)),
      );
    },
  );
  await fc.assert(property, { seed, numRuns: caseCount(150) });
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
