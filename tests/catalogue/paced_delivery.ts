import { setImmediate } from "node:timers";
import type postgres from "postgres";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  callFunction,
  createClient,
} from "../../supabase/functions/_shared/billing/database.ts";
import { emailChannel } from "../../supabase/functions/billing-worker/channels/email_channel.ts";
import {
  deliverNotifications,
  pacer,
} from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { RUN_TIME_MS } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import {
  MAIL_API_KEY,
  type MailRequest,
  startMailApi,
} from "../support/notified.ts";
import { oweNotifications } from "../support/queues.ts";
import { setting } from "../support/test_environment.ts";

/** The outcome for the mails that were due. */
export interface PacedDelivery {
  /** Until the last was accepted, in virtual milliseconds. */
  readonly tookMs: number;
  readonly requests: readonly MailRequest[];
  /** How many rows there are of each status and number of attempts. */
  readonly rows: Record<string, number>;
}

/** As pg_cron does. */
const WAKES_EVERY_MS = 60_000;
const MOST_WAKES = 180;
const DATABASE_LATENCY_MS = 50;
/** A round of the event loop may begin work that the next one ends. */
const QUIET_ROUNDS = 3;

/**
 * Lets a worker deliver e-mails that are all due at once, to a mail API that takes
 * no more than `allowed` per second. It uses the real database, channel and package,
 * and is woken every minute of a virtual clock. Ends when nothing is pending, or
 * after three hours.
 */
export async function deliverPaced(
  sql: postgres.Sql,
  { count, allowed }: { count: number; allowed: number },
): Promise<PacedDelivery> {
  const clock = virtualClock();
  const events = await oweNotifications(sql, { count });
  await using api = startMailApi({ perSecond: allowed, now: clock.now });
  // Where the package itself looks for it.
  Deno.env.set("RESEND_BASE_URL", api.url);
  const wake = await startWorker(clock, { sql, events, allowed });
  const isDone = async () => {
    const pending = await sql`
      select from billing.notifications
      where event_id = any (${events}) and status = 'pending' limit 1`;
    return pending.length === 0;
  };

  await clock.run((async () => {
    const underWay: Promise<void>[] = [];
    while (underWay.length < MOST_WAKES) {
      underWay.push(wake());
      await clock.sleep(WAKES_EVERY_MS);
      if (await clock.during(isDone)) break;
    }
    await Promise.all(underWay);
  })()).finally(() => Deno.env.delete("RESEND_BASE_URL"));

  const counted = await sql<{ status: string; count: number }[]>`
    select concat_ws(' ', status, attempts) as status, count(*)::int
    from billing.notifications where event_id = any (${events}) group by 1`;
  const accepted = api.requests.filter(({ status }) => status === 200);
  return {
    tookMs: accepted.at(-1)?.at ?? Infinity,
    requests: api.requests,
    rows: Object.fromEntries(counted.map((row) => [row.status, row.count])),
  };
}

/** Returns a worker, which makes one run per call, by the clock. */
async function startWorker(
  clock: VirtualClock,
  { sql, events, allowed }: {
    sql: postgres.Sql;
    events: string[];
    allowed: number;
  },
): Promise<() => Promise<void>> {
  const age = databaseAger(sql, { clock, events });
  const { secret: secretKey } = await localKeys();
  const supabaseUrl = setting("TEST_API_URL");
  const database = createClient({ supabaseUrl, secretKey }, {
    fetch: async (input, init) => {
      await clock.sleep(DATABASE_LATENCY_MS);
      const begun = performance.now();
      const answer = await clock.during(async () => {
        await age();
        // Virtual time runs faster than a signal's.
        const response = await fetch(input, { ...init, signal: null });
        const { status, headers } = response;
        return new Response(await response.text(), { status, headers });
      });
      // The database's clock went on meanwhile, so the virtual one has to.
      await clock.sleep(performance.now() - begun);
      return answer;
    },
  });
  const mails = emailChannel({
    apiKey: MAIL_API_KEY,
    from: "Billing <billing@example.com>",
    perSecond: allowed,
    addressOf: (account) => Promise.resolve(`${account}@example.com`),
    clock: clock.now,
  });
  const channel: typeof mails = {
    ...mails,
    send: (notification) => clock.during(() => mails.send(notification)),
  };
  const pace = pacer(channel, { clock: clock.now, sleep: clock.sleep });
  return async () => {
    const leaseId = crypto.randomUUID();
    await deliverNotifications({
      database,
      leaseId,
      channel,
      pace,
      endMs: clock.now() + RUN_TIME_MS,
      log: () => {},
      clock: clock.now,
    });
    const queue = { p_queue: "notifications", p_lease_id: leaseId };
    await callFunction(database, "billing_release_lease", queue, {
      timeLimitMs: HANG_LIMIT_MS,
    });
  };
}

/**
 * Takes what has passed of the virtual time off all waits, less what has passed
 * by the database's own clock.
 */
function databaseAger(
  sql: postgres.Sql,
  { clock, events }: { clock: VirtualClock; events: string[] },
): () => Promise<void> {
  const lead = () => clock.now() - performance.now();
  let applied = lead();
  return async () => {
    const passed = `${lead() - applied} milliseconds`;
    applied = lead();
    await sql`
      with pauses as (
        update billing.pauses
        set paused_until = paused_until - ${passed}::interval
        where destination = 'resend'
      ), leases as (
        update billing.leases set held_until = held_until - ${passed}::interval
        where queue = 'notifications'
      )
      update billing.notifications
      set next_attempt_at = next_attempt_at - ${passed}::interval
      where status = 'pending' and next_attempt_at > now()
        and next_attempt_at < 'infinity' and event_id = any (${events})`;
  };
}

type VirtualClock = ReturnType<typeof virtualClock>;

/**
 * Returns a clock that moves on to the next time that a sleeper waits for, as
 * soon as no work is under way.
 */
function virtualClock() {
  const sleepers: { at: number; wake: () => void }[] = [];
  let time = 0;
  let underWay = 0;

  async function quiet(): Promise<void> {
    for (let rounds = 0; rounds < QUIET_ROUNDS; rounds++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (underWay > 0) rounds = -1;
    }
  }

  return {
    /** In milliseconds since it began. */
    now: () => time,
    /** Resolves when the clock has come that far. */
    sleep: (ms: number) =>
      new Promise<void>((wake) => sleepers.push({ at: time + ms, wake })),
    /** Real work, such as a request: the clock waits for it. */
    during: async <T>(work: () => Promise<T>) => {
      underWay++;
      return await work().finally(() => underWay--);
    },
    /** Lets time pass until the work is done. */
    run: async (work: Promise<void>) => {
      let isDone = false;
      const mark = () => void (isDone = true);
      work.then(mark, mark);
      for (;;) {
        await quiet();
        if (isDone) return await work;
        sleepers.sort((a, b) => a.at - b.at);
        const next = sleepers.shift();
        if (next === undefined) throw new Error("Nobody sleeps, nothing ends");
        time = next.at;
        next.wake();
      }
    },
  };
}
