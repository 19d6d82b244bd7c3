/** Notifications beside a model of what is true, and of which events are news. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { endLease, putOffAll } from "../support/queues.ts";
import { checkProperty, seededRandom, shuffled } from "../support/random.ts";
import { connect } from "../support/tables.ts";

const HOUR = 3_600_000;
const NOW = Date.now();
const UNPAID = ["past_due", "unpaid", "incomplete"];
/** How often each status, and each kind of event, comes. */
const STATUSES = {
  past_due: 1,
  unpaid: 1,
  incomplete: 1,
  active: 3,
  trialing: 2,
  canceled: 3,
  incomplete_expired: 2,
};
const KINDS = {
  update: 3,
  deletion: 2,
  payment_failed: 1,
  action_required: 1,
  trial_ending: 1,
};
const CHANGE = /creation|update|deletion/;
const NO_LIFE = /^(canceled|incomplete_expired)$/;

const weighted = (weights: Readonly<Record<string, number>>) =>
  fc.oneof(
    ...Object.entries(weights).map(([name, weight]) => ({
      weight,
      arbitrary: fc.constant(name),
    })),
  );

const happening = fc.record({
  what: weighted(KINDS),
  status: weighted(STATUSES),
  // No trial ends while the test runs.
  trialEnd: fc.constantFrom(NOW + HOUR, NOW + HOUR, NOW - HOUR, null),
  hours: fc.integer({ min: 1, max: 24 }),
  saysPrevious: fc.boolean(),
});
const life = fc.array(happening, { maxLength: 7, size: "max" }).map((all) => {
  const of = crypto.randomUUID();
  let state = { status: "incomplete", trialEnd: NOW as number | null };
  // No event is exactly three days old.
  let at = NOW - 90.5 * HOUR;
  const birth = { ...state, what: "creation", hours: 0, saysPrevious: false };

  return [birth, ...all].map((next, i) => {
    const { what, status, trialEnd, hours, saysPrevious } = next;
    const before = saysPrevious ? state.status : undefined;
    // A notice has the time of the change before it.
    if (CHANGE.test(what)) at += hours * HOUR;
    if (what === "update") state = { status, trialEnd };
    return { id: `${of}/${i}`, of, what, at, ...state, before };
  });
});
type Event = (typeof life extends fc.Arbitrary<(infer T)[]> ? T : never) & {
  /** The status that an update replaced, if it says so; else as the record knew. */
  readonly before: string | undefined;
};

/** Returns an event as the receiver sends it to the database. */
function wire(
  { id, of, what, at, status, trialEnd, before }: Event,
  place = 0,
) {
  const trial_end = trialEnd && new Date(trialEnd).toISOString();
  const kind = { update: "recovered", deletion: "ended" }[what] ?? what;
  const report = { provider_status: status, trial_end, plan_id: "price_1" };
  return {
    place,
    provider: "a",
    event_id: id,
    type: what,
    account_id: "acc_1",
    kind: CHANGE.test(what) ? what : "notice",
    subscription_id: of,
    occurred_at: new Date(at).toISOString(),
    report: /creation|update/.test(what) ? report : {},
    previous: before ? { provider_status: before } : null,
    ...(what !== "creation" && { payment: { kind, trial_end } }),
  };
}

/** Returns the newest of these events; there is always the creation. */
function newest(events: readonly Event[], types: RegExp): Event {
  return events.filter(({ what }) => types.test(what))
    .reduce((newest, event) => newest.at > event.at ? newest : event);
}

function isOver(arrived: Event[]): boolean {
  const last = newest(arrived, CHANGE);
  return last.what === "deletion" || last.status === "canceled";
}

/**
 * Returns whether an event says the truth, by all that have arrived; undefined if the
 * change that it follows has not, and it cannot be known.
 */
function isTrue({ what, at, trialEnd }: Event, arrived: Event[]) {
  const { status, trialEnd: end } = newest(arrived, /creation|update/);
  const hasEnded = isOver(arrived);

  if (what === "trial_ending") {
    if (trialEnd! <= NOW) return false;
    if (!hasEnded && status === "trialing" && end === trialEnd) return true;
    return newest(arrived, CHANGE).at < at ? undefined : false;
  }

  if (what === "deletion" || hasEnded) return what === "deletion" && hasEnded;
  if (what === "update") {
    return status === "active" && at > NOW - 72 * HOUR;
  }

  const isPaid = arrived.some((later) =>
    later.what === "update" && later.at > at &&
    UNPAID.includes(later.before!) && /^(active|trialing)$/.test(later.status)
  );
  return !isPaid && status !== "incomplete_expired";
}

/** Returns whether an event shows that the subscription has not ended, or is back. */
function isAlive({ what, status }: Event): boolean {
  return what === "creation" || what === "update" && !NO_LIFE.test(status);
}

/** Returns whether an event that was applied causes a notification. */
function isNews({ what, status, before, at }: Event, arrived: Event[]) {
  if (what === "update") {
    return /past_due|unpaid/.test(before ?? "") && status === "active";
  }
  if (what === "deletion") {
    const ends = arrived.filter(({ what }) => what === "deletion");
    if (ends.length === 0) return true;
    const end = newest(ends, CHANGE).at;
    const alive = newest(arrived.filter(isAlive), CHANGE).at;
    return end < alive && alive < at;
  }
  return what !== "creation";
}

/** Returns the ends of a life: deletions with nothing alive between them are one end. */
function endsOf(life: readonly Event[]): string[][] {
  const ends: string[][] = [[]];
  for (const event of life) {
    if (event.what === "deletion") ends.at(-1)!.push(event.id);
    else if (isAlive(event)) ends.push([]);
  }
  return ends;
}

Deno.test("a notification is sent once and while it is true, and withdrawn if it is not", async () => {
  const sql = connect(1);
  await putOffAll(sql);
  const results = new Set<string>();
  const lives = fc.array(life, { minLength: 20, maxLength: 40, size: "max" });
  const property = fc.asyncProperty(
    lives,
    fc.integer(),
    async (lives, order) => {
      const random = seededRandom(order);
      const events = new Map(lives.flat().map((event) => [event.id, event]));
      const arrived = new Map(
        lives.map(([birth]) => [birth!.of, [] as Event[]]),
      );
      const settled = new Set<string>();
      const news = new Set<string>();
      const ids = [...events.keys()];
      await endLease(sql, "notifications");
      let lease = crypto.randomUUID();

      /** Does a run that sends some, or fails, or dies before it has stored that. */
      async function work(result: string): Promise<number> {
        await sql`
          update billing.notifications set next_attempt_at = now(), attempts = 0
          where status = 'pending' and next_attempt_at < 'infinity'`;
        const most = Math.ceil(random() * 9);
        const claimed = await sql`
          select one ->> 'id' as id, one ->> 'event_id' as event_id, true as is_true
          from billing_claim_notifications(${lease}, ${most}, 'x') as one`;
        const withdrawn = await sql`
          select event_id, false as is_true from billing.notifications
          where status = 'withdrawn' and event_id in ${sql(ids)}
            and event_id <> all (${[...settled]})`;

        for (const { event_id, is_true } of [...claimed, ...withdrawn]) {
          const event = events.get(event_id)!;
          assert(!settled.has(event_id), "It was settled before.");
          const isNow = isTrue(event, arrived.get(event.of)!);
          assertEquals(isNow, is_true, JSON.stringify(event));
          if (!is_true || result === "sent") settled.add(event_id);
        }

        const results = sql.json(claimed.map(({ id }) => ({ id, result })));
        if (result === "died") await endLease(sql, "notifications");
        await sql`
          select billing_settle_notifications(${lease}, 'x', ${results})`;
        if (result === "died") lease = crypto.randomUUID();
        return claimed.length + withdrawn.length;
      }

      /** Takes an event as arrived. Returns whether it has to come again. */
      function arrive(event: Event, outcome: string): boolean {
        const all = arrived.get(event.of)!;
        const isTooEarly = all.length === 0 && event.what !== "creation";
        assertEquals(outcome === "failed", isTooEarly);
        if (isTooEarly) return true;

        const known = all.length ? newest(all, /creation|update/) : event;
        const before = known.at < event.at ? known.status : undefined;
        const completed = { ...event, before: event.before ?? before };
        if (outcome === "applied" && isNews(completed, all)) news.add(event.id);
        if (all.every(({ id }) => id !== event.id)) all.push(completed);
        return false;
      }

      // The second time, as if the ledger had been pruned.
      for (const _ of [1, 2]) {
        let queues = lives.map((life) => {
          const again = life.filter(() => random() < 0.3);
          return random() < 0.5
            ? [...life, ...again]
            : shuffled([...life, ...again], random);
        });
        while (queues.length > 0) {
          const batch = queues.map((queue) => queue.shift()!);
          const rows = await sql`
            select place, outcome
            from billing_apply_events(${sql.json(batch.map(wire))})`;
          for (const { place, outcome } of rows) {
            const event = batch[place]!;
            if (arrive(event, outcome)) queues[place]!.push(event);
          }
          queues = queues.filter(({ length }) => length > 0);

          const result = ["sent", "failed", "died"][Math.floor(random() * 6)];
          if (result) await work(result);
        }
        while (await work("sent") > 0);

        const rows = await sql`
          select event_id, status from billing.notifications
          where event_id in ${sql(ids)}`;
        assertEquals(new Set(rows.map(({ event_id }) => event_id)), news);
        for (const { status } of rows) results.add(status);
        for (const end of lives.flatMap(endsOf)) {
          assert(end.filter((id) => news.has(id)).length <= 1, "told twice");
        }
        await sql`
          delete from billing.processed_events where event_id in ${sql(ids)}`;
      }
    },
  );
  await checkProperty(property, { numRuns: 8, endOnFailure: true })
    .finally(() => sql.end());
  assertEquals(results, new Set(["sent", "withdrawn"]));
});
