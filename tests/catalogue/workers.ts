/** Rows 61 to 63, 71 and 72: endpoints and APIs that answer badly. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { setImmediate } from "node:timers";
import type { Sql } from "postgres";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database/client.ts";
import { emailChannel } from "../../supabase/functions/billing-worker/channels/email_channel.ts";
import {
  deliverNotifications,
  NO_NOTIFICATIONS,
  pacer,
} from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { RUN_TIME_MS } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { eventually, limited } from "../support/hang_limit.ts";
import {
  MAIL_API_KEY,
  NOTIFICATION_SECRET,
  startMailApi,
  startNotifiedEndpoint,
} from "../support/notified.ts";
import {
  endLease,
  endPauses,
  makeDue,
  outboxRow,
  oweNotifications,
} from "../support/queues.ts";
import { runScript } from "../support/run_script.ts";
import { serveFunction, startWorker } from "../support/functions.ts";
import { serveHere } from "../support/machine.ts";
import { setting } from "../support/test_environment.ts";
import type { Rows } from "./deliver.ts";

const HANGS_FOR_MS = 11_000;

/** How the notified endpoint answers, and what is left of the notification. */
interface Answered {
  readonly answer: number | "hangs";
  readonly status: "pending" | "dead";
  readonly attempts: number;
  /** The seconds to wait. */
  readonly least?: number;
  readonly most?: number;
}

const FAILED = { status: "pending", attempts: 1, least: -60, most: 6 } as const;
const ANSWERS: readonly Answered[] = [
  { answer: 302, ...FAILED },
  { answer: 410, status: "dead", attempts: 1 },
  // It was not looked at, so it is no attempt.
  { answer: 429, status: "pending", attempts: 0, least: 3_500, most: 3_605 },
  { answer: 500, ...FAILED },
  { answer: "hangs", ...FAILED },
];

const MAILS = 2_000;
const MAILS_PER_SECOND = 2;
const OWN_TIME_MS = (MAILS / MAILS_PER_SECOND) * 1_000;
const MOST_WAKES = 60;

const HOSTILE =
  "MARK\x1b[2J\x1b]52;c;eA==\x07\u009b31m\u009d0;x\u009c\u202e\x7f\r\nFORGED";

export const WORKERS: Rows = {
  "61: NOTIFICATION_URL not https and not loopback, or with credentials": {
    check: async () => {
      const env = {
        NOTIFICATION_URL: "https://me:x@example.com/CATALOGUE",
        NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
      };
      const { message } = await assertRejects(
        () => serveFunction("billing-worker", { env }),
        Error,
        "Cannot start",
      );
      assertMatch(message, /NOTIFICATION_URL must/);
      assert(!/CATALOGUE|me:x|whsec_/.test(message), message);
    },
  },
  "62: the notified endpoint redirects, hangs, answers 4xx/5xx/429, 410": {
    begin: async (stage) => {
      const { sql } = stage;
      const endpoint = stage.use(startNotifiedEndpoint());
      const elsewhere = stage.use(startNotifiedEndpoint());
      const worker = stage.use(await startWorker(endpoint.env));
      const events = await oweNotifications(sql, { count: ANSWERS.length });
      endpoint.answerWith(async ({ eventId }) => {
        const { answer: status } = ANSWERS[events.indexOf(eventId)]!;
        if (status === "hangs") {
          await new Promise((resolve) => setTimeout(resolve, HANGS_FOR_MS));
          return new Response("OK");
        }
        const location = elsewhere.env.NOTIFICATION_URL!;
        const later = status === 429 && { "retry-after": "3600" };
        return new Response("", { status, headers: { location, ...later } });
      });

      const turn = worker.wake().then(async () => {
        const ended = Date.now();
        const rows = events.map((event) => outboxRow(sql, event));
        return { ended, rows: await Promise.all(rows) };
      });
      turn.catch(() => {}); // reported below

      return async () => {
        const { ended, rows } = await turn;
        for (const [i, row] of rows.entries()) {
          const { answer, status, attempts, ...wait } = ANSWERS[i]!;
          const { least = -Infinity, most = Infinity } = wait;
          assertEquals(
            [answer, row.status, row.attempts, row.sent_at],
            [answer, status, attempts, null],
          );
          const error = answer === "hangs" ? "no answer within 10000 ms" : "";
          assert(row.last_error?.includes(error), `${row.last_error}`);
          const waits = (row.next_attempt_at.getTime() - ended) / 1_000;
          assert(waits > least && waits < most, `${answer}: in ${waits} s`);
          assertEquals(endpoint.about(row.event_id).length, 1);
        }

        const { arrivals, refused } = elsewhere;
        assertEquals([arrivals, refused], [[], []], "A redirect was followed");
        assert(!worker.output().includes(NOTIFICATION_SECRET.slice(6)));
      };
    },
  },
  "63: crash after sending, before marking": {
    check: async ({ sql }) => {
      // The worker of row 62 has the queue until then.
      await eventually(async () => {
        const leases = await sql`
          select from billing.leases
          where queue = 'notifications' and held_until > clock_timestamp()`;
        return leases.length === 0;
      });

      const held = Promise.withResolvers<void>();
      await using endpoint = startNotifiedEndpoint();
      await using killed = await startWorker(endpoint.env);
      await using next = await startWorker(endpoint.env);
      const [event] = await oweNotifications(sql);
      endpoint.answerWith(() => held.promise.then(() => new Response("OK")));
      const call = killed.wake().catch(() => "cut off");
      await endpoint.arrived(event).finally(() => killed.kill());
      assertEquals(await call, "cut off");
      held.resolve();

      const left = await outboxRow(sql, event);
      assertEquals([left.status, left.attempts], ["pending", 1]);

      await endLease(sql, "notifications");
      await makeDue(sql, event);
      assertEquals(await next.wake(), {
        ...NO_NOTIFICATIONS,
        claimed: 1,
        sent: 1,
      });

      const row = await outboxRow(sql, event);
      assertEquals([row.status, row.attempts], ["sent", 2]);
      const ids = endpoint.about(event).map(({ id }) => id);
      assertEquals(ids, [left.id, left.id]);
    },
  },
  "71: 2,000 e-mails due at once, the mail API takes 2 a second": {
    check: async ({ sql }) => {
      const { tookMs, rows, sentTwice } = await mailAll(sql);
      assertEquals([rows, sentTwice], [{ "sent 1": MAILS }, 0]);
      assert(tookMs < 1.5 * OWN_TIME_MS, `${tookMs} ms of the worker's time`);
    },
  },
  "72: control characters and escape sequences in what a provider's API answers":
    {
      check: async () => {
        await using objects = hostileProvider(404, HOSTILE_LISTS);
        await using errors = hostileProvider(400, {});
        for (
          const [name, args, api, code] of [
            ["reconcile", ["--json"], objects, 1],
            ["import", [], errors, 3],
          ] as const
        ) {
          const options = { args: ["--stripe-url", api.url, ...args] };
          const ended = runScript(name, options);
          const result = await limited(ended, `the end of ${name}`);
          const output = result.out + result.err;
          assertEquals(result.code, code, output);
          assertMatch(output, /MARK/);

          const found =
            /[^\n\u0020-\u007e\u00a0-\uffff]|[\u202a-\u202e]|^FORGED/m
              .exec(output);
          assertEquals(found, null, `${name}: ${JSON.stringify(output)}`);

          if (args.length > 0 && code === 1) {
            assert(result.out.includes("\\u001b"));
            JSON.parse(result.out);
          }
        }
      },
    },
};

/**
 * Has a worker, which is woken every minute, send all mails: with the real
 * database, channel and package, by a clock that does not wait.
 */
async function mailAll(sql: Sql) {
  const events = await oweNotifications(sql, { count: MAILS });

  let now = 0;
  const clock = () => now;
  let sending = Promise.resolve();
  let slept = Promise.resolve();
  /** Ends sleeps in the order of the calls, each when the mail before it is answered. */
  function sleep(ms: number): Promise<void> {
    const until = now + ms;
    slept = slept.then(async () => {
      // The call that slept before this one sends now.
      await new Promise((resolve) => setImmediate(resolve));
      await sending;
      now = Math.max(now, until);
    });
    return slept;
  }

  await using api = startMailApi({ perSecond: MAILS_PER_SECOND, now: clock });
  const channel = emailChannel({
    url: api.url,
    apiKey: MAIL_API_KEY,
    from: "Billing <billing@example.com>",
    perSecond: MAILS_PER_SECOND,
    addressOf: (account) => Promise.resolve(`${account}@example.com`),
    fetch,
    clock,
  });

  const { secret: secretKey } = await localKeys();
  const worker = {
    database: createClient(
      { supabaseUrl: setting("TEST_API_URL"), secretKey },
      { fetch },
    ),
    leaseId: crypto.randomUUID(),
    channel: {
      ...channel,
      send: (...sent: Parameters<typeof channel.send>) => {
        const attempt = channel.send(...sent);
        sending = attempt.then(() => {});
        return attempt;
      },
    },
    pace: pacer(MAILS_PER_SECOND, { clock, sleep }),
    log: () => {},
    clock,
  };

  for (let wake = 0; wake < MOST_WAKES; wake++) {
    now = Math.max(now, wake * 60_000);
    const endMs = now + RUN_TIME_MS;
    const { claimed } = await deliverNotifications({ ...worker, endMs });
    if (claimed === 0) break;
    // By the next run, a minute later, everything is due and free again.
    await endLease(sql, "notifications");
    await endPauses(sql);
    await sql`
      update billing.notifications set next_attempt_at = now()
      where event_id = any (${events}) and status = 'pending'`;
  }

  const accepted = api.requests.filter(({ status }) => status === 200);
  const counted = await sql<{ status: string; count: number }[]>`
    select concat_ws(' ', status, attempts) as status, count(*)::int
    from billing.notifications where event_id = any (${events}) group by 1`;
  return {
    tookMs: accepted.at(-1)?.at ?? Infinity,
    rows: Object.fromEntries(counted.map((row) => [row.status, row.count])),
    sentTwice: accepted.length - new Set(accepted.map(({ key }) => key)).size,
  };
}

function hostileProvider(
  status: 400 | 404,
  lists: Readonly<Record<string, readonly unknown[]>>,
) {
  const code = status === 404 ? "resource_missing" : undefined;
  const error = { type: "invalid_request_error", message: HOSTILE, code };
  return serveHere((request) => {
    const data = lists[new URL(request.url).pathname];
    const headers = { date: new Date().toUTCString() };
    return data === undefined
      ? Response.json({ error }, { status, headers })
      : Response.json({ object: "list", has_more: false, data }, { headers });
  });
}

const hostile = (number: number, account: string | null = null) =>
  subscriptionEvent("customer.subscription.updated", {
    apiVersion: "2026-10-28.endive",
    id: `evt_${HOSTILE}`,
    subscription: `sub_${HOSTILE}${number}`,
    status: `active${HOSTILE}`,
    plan: `price_${HOSTILE}`,
    customer: `cus_${HOSTILE}`,
    account,
  });
const HOSTILE_LISTS = {
  // Without an account, and with fields that are refused.
  "/v1/subscriptions": [hostile(0), hostile(1, `a${HOSTILE}`)]
    .map(({ data }) => data.object),
  "/v1/events": [hostile(3)],
};
