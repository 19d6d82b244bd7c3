/**
 * No notification is sent whose statement is not true in the database at that moment,
 * none is withdrawn that is true, and each event that is news causes one, whatever comes
 * again.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { endLease, putOffAll } from "../support/queues.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { connect } from "../support/tables.ts";

const HOUR = 3_600_000;
const NOW = Date.now();
const UNPAID = ["past_due", "unpaid", "incomplete"];
const STATUSES = [...UNPAID, "active", "active", "trialing", "trialing"]
  .concat("active", "canceled", "canceled", "incomplete_expired")
  .concat("canceled", "incomplete_expired");
const KINDS = ["update", "update", "update", "deletion", "deletion"]
  .concat("payment_failed", "action_required", "trial_ending");
const CHANGE = /creation|update|deletion/;
const NO_LIFE = /^(canceled|incomplete_expired)$/;

const happening = fc.record({
  what: fc.constantFrom(...KINDS),
  status: fc.constantFrom(...STATUSES),
  // None comes true or untrue while the test runs.
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
  return [birth, ...all].map(({ what, status, trialEnd, ...rest }, i) => {
    const before = rest.saysPrevious ? state.status : undefined;
    // A notice is of the second of a change.
    if (CHANGE.test(what)) at += rest.hours * HOUR;
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
    ...{ place, provider: "a", event_id: id, type: what, account_id: "acc_1" },
    kind: CHANGE.test(what) ? what : "notice",
    ...{ subscription_id: of, occurred_at: new Date(at).toISOString() },
    report: CHANGE.test(what) ? report : {},
    previous: before ? { provider_status: before } : null,
    ...(what !== "creation" && { payment: { kind, trial_end } }),
  };
}

/** Returns the newest of these events; there is always the creation. */
function newest(events: readonly Event[], types: RegExp): Event {
  return events.filter(({ what }) => types.test(what))
    .reduce((one, other) => one.at > other.at ? one : other);
}

function isOver(arrived: Event[]): boolean {
  const last = newest(arrived, CHANGE);
  return last.what === "deletion" || last.status === "canceled";
}

/**
 * Returns whether it is true what an event says, by all that have arrived; undefined if
 * the change that it follows has not, and nobody knows.
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

/** Returns whether it shows that the subscription has not ended, or is back. */
function isAlive({ what, status }: Event): boolean {
  return what === "creation" || what === "update" && !NO_LIFE.test(status);
}

/** Returns whether an account is to be told of an event that was applied. */
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

/** Returns the ends of a life: the deletions with nothing alive in between are one. */
function endsOf(life: readonly Event[]): string[][] {
  const ends: string[][] = [[]];
  for (const event of life) {
    if (event.what === "deletion") ends.at(-1)!.push(event.id);
    else if (isAlive(event)) ends.push([]);
  }
  return ends;
}

Deno.test("a notification is sent once and while it is true, and withdrawn if it is not", async () => {
  const seed = freshSeed();
  console.log(`seed ${seed}`);
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
      await endLease(sql, "notifications");
      let lease = crypto.randomUUID();

      /** A run that sends some, or fails, or dies before it has stored that. */
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
        where status = 'withdrawn' and event_id in ${sql([...events.keys()])}
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
            const all = arrived.get(event.of)!;
            assertEquals(
              outcome === "failed",
              all.length === 0 && event.what !== "creation",
            );
            if (outcome === "failed") {
              queues[place]!.push(event);
              continue;
            }
            const known = all.length ? newest(all, /creation|update/) : event;
            const before = known.at < event.at ? known.status : undefined;
            const told = { ...event, before: event.before ?? before };
            if (outcome === "applied" && isNews(told, all)) news.add(event.id);
            if (all.every(({ id }) => id !== event.id)) all.push(told);
          }
          queues = queues.filter(({ length }) => length > 0);
          const result = ["sent", "failed", "died"][Math.floor(random() * 6)];
          if (result) await work(result);
        }
        while (await work("sent") > 0);
        const rows = await sql`
        select event_id, status from billing.notifications
        where event_id in ${sql([...events.keys()])}`;
        assertEquals(new Set(rows.map(({ event_id }) => event_id)), news);
        for (const { status } of rows) results.add(status);
        for (const ids of lives.flatMap(endsOf)) {
          assert(ids.filter((id) => news.has(id)).length <= 1, "told twice");
        }
        await sql`
        delete from billing.processed_events
        where event_id in ${sql([...events.keys()])}`;
      }
    },
  );
  await fc.assert(property, { seed, numRuns: 8, endOnFailure: true })
    .finally(() => sql.end());
  assertEquals(results, new Set(["sent", "withdrawn"]));
});
