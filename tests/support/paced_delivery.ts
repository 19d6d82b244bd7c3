import type postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import {
  callFunction,
  createClient,
} from "../../supabase/functions/_shared/billing/database.ts";
import { emailChannel } from "../../supabase/functions/billing-worker/channels/email_channel.ts";
import {
  deliverNotifications,
  type NotificationCounts,
  pacer,
} from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { RUN_TIME_MS } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { MAIL_API_KEY, type MailApi, startMailApi } from "./mail_api.ts";
import { setting } from "./test_environment.ts";
import { type VirtualClock, virtualClock } from "./virtual_clock.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { oweNotifications } from "./outbox.ts";

/** The outcome for the mails that were due. */
export interface PacedDelivery {
  /** Until the last was accepted, in virtual milliseconds. */
  readonly tookMs: number;
  readonly turns: readonly NotificationCounts[];
  readonly requests: MailApi["requests"];
  readonly mails: MailApi["mails"];
  /** How many rows there are of each status and number of attempts. */
  readonly rows: Record<string, number>;
}

interface Options {
  readonly count: number;
  /** What the mail API takes, and what the worker believes that it takes. */
  readonly allowed: number;
  readonly configured?: number;
  /**
   * How long the mail API takes to answer, and the database, in milliseconds.
   */
  readonly latencyMs?: number;
  readonly databaseLatencyMs?: number;
  /** How many workers are woken at once. */
  readonly workers?: number;
}

/** As pg_cron does. */
const WAKES_EVERY_MS = 60_000;

/**
 * Lets workers deliver e-mails that are all due at once, to a mail API with a
 * limit. They use the real database, channel and package, and are woken every
 * minute of a virtual clock. Ends when nothing is pending, or after three hours.
 */
export async function deliverPaced(
  sql: postgres.Sql,
  {
    count,
    allowed,
    configured = allowed,
    latencyMs = 300,
    databaseLatencyMs = 50,
    workers = 1,
  }: Options,
): Promise<PacedDelivery> {
  const clock = virtualClock();
  const events = await oweNotifications(sql, { count });
  await using api = startMailApi({
    perSecond: allowed,
    latencyMs,
    now: clock.now,
    sleep: (ms) => clock.pause(() => clock.sleep(ms)),
  });
  using _baseUrl = setBaseUrl(api.url);
  const age = databaseAger(sql, { clock, events });
  const wakes = await Promise.all(
    Array.from(
      { length: workers },
      () => worker(clock, { configured, databaseLatencyMs, age }),
    ),
  );

  const turns: NotificationCounts[] = [];
  const underWay: Promise<unknown>[] = [];
  await clock.run((async () => {
    for (let minute = 0; minute < 180; minute++) {
      for (const wake of wakes) {
        underWay.push(wake().then((counts) => turns.push(counts)));
      }
      await clock.sleep(WAKES_EVERY_MS);
      if (await clock.during(() => isDone(sql, events))) break;
    }
    await Promise.all(underWay);
  })());

  const counted = await sql<{ status: string; count: number }[]>`
    select concat_ws(' ', status, attempts) as status, count(*)::int
    from billing.notifications where event_id = any (${events}) group by 1`;
  const accepted = api.requests.filter(({ status }) => status === 200);
  return {
    tookMs: accepted.at(-1)?.at ?? Infinity,
    turns,
    requests: api.requests,
    mails: api.mails,
    rows: Object.fromEntries(counted.map((row) => [row.status, row.count])),
  };
}

async function isDone(
  sql: postgres.Sql,
  events: readonly string[],
): Promise<boolean> {
  const pending = await sql`
    select from billing.notifications
    where event_id = any (${events as string[]}) and status = 'pending' limit 1`;
  return pending.length === 0;
}

/** Returns a worker, which makes one run per call, by the clock. */
async function worker(
  clock: VirtualClock,
  { configured, databaseLatencyMs, age }: {
    configured: number;
    databaseLatencyMs: number;
    age: () => Promise<void>;
  },
) {
  const database = createClient({
    supabaseUrl: setting("TEST_API_URL"),
    secretKey: (await localKeys()).secret,
  }, {
    fetch: async (input, init) => {
      await clock.sleep(databaseLatencyMs);
      // Virtual time runs faster than a signal's.
      const { signal: _, ...rest } = init ?? {};
      const begun = performance.now();
      const answer = await clock.during(async () => {
        await age();
        const response = await fetch(input, rest);
        const { status, headers } = response;
        return new Response(await response.text(), { status, headers });
      });
      // The database's clock went on meanwhile, so the virtual one has to.
      await clock.sleep(performance.now() - begun);
      return answer;
    },
  });
  const channel = emailChannel({
    apiKey: MAIL_API_KEY,
    from: "Billing <billing@example.com>",
    perSecond: configured,
    addressOf: (account) => Promise.resolve(`${account}@example.com`),
    clock: clock.now,
  });
  const pace = pacer(channel, { clock: clock.now, sleep: clock.sleep });
  return async () => {
    const leaseId = crypto.randomUUID();
    const counts = await deliverNotifications({
      database,
      leaseId,
      channel: {
        ...channel,
        send: (notification) => clock.during(() => channel.send(notification)),
      },
      pace,
      endMs: clock.now() + RUN_TIME_MS,
      log: () => {},
      clock: clock.now,
    });
    const queue = { p_queue: "notifications", p_lease_id: leaseId };
    await callFunction(database, "billing_release_lease", queue, {
      timeLimitMs: HANG_LIMIT_MS,
    });
    return counts;
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
    await sql.begin(async (tx) => {
      await tx`
        update billing.pauses
        set paused_until = paused_until - ${passed}::interval
        where destination = 'resend'`;
      await tx`
        update billing.leases set held_until = held_until - ${passed}::interval
        where queue = 'notifications'`;
      await tx`
        update billing.notifications
        set next_attempt_at = next_attempt_at - ${passed}::interval
        where status = 'pending' and next_attempt_at > now()
          and next_attempt_at < 'infinity' and event_id = any (${events})`;
    });
  };
}

/** Where the package itself looks for it. */
function setBaseUrl(url: string): Disposable {
  const before = Deno.env.get("RESEND_BASE_URL");
  Deno.env.set("RESEND_BASE_URL", url);
  return {
    [Symbol.dispose]: () => {
      if (before === undefined) Deno.env.delete("RESEND_BASE_URL");
      else Deno.env.set("RESEND_BASE_URL", before);
    },
  };
}
