import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type {
  Alert,
  Attempt,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { retryAfterSeconds } from "../../../supabase/functions/billing-worker/channels/post_message.ts";
import {
  alertChannel,
  webhookChannel,
} from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";
import { NOT_STATED, STATED } from "../../support/payment.ts";
import { NOTIFICATION } from "./fixtures.ts";

const URL_TEXT = "https://hooks.test:8443/LEAKED?token=LEAKED";
const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

type Reply = (signal: AbortSignal) => Response | Promise<Response>;

/** Sends a notification or an alert, which is answered so. */
async function send(
  reply: Reply = () => new Response("OK"),
  {
    url = URL_TEXT,
    clock = Date.now,
    message = NOTIFICATION as typeof NOTIFICATION | Alert,
  } = {},
) {
  const requests: Request[] = [];
  const options = {
    secret: SECRET,
    fetch: async (input: URL | RequestInfo, init?: RequestInit) => {
      requests.push(new Request(input, { ...init, signal: null }));
      return await reply(init?.signal as AbortSignal);
    },
    clock,
    timeLimitMs: 20,
  };
  const attempt = "kind" in message
    ? await alertChannel(url, options).send(message)
    : await webhookChannel(url, options).send(message);
  assertEquals(requests.length, 1, "Redirects are not followed");
  return { attempt, request: requests[0]! };
}

const DATA = {
  account_id: "acc_1",
  subscription_id: "sub_1",
  provider: "a",
  event_id: "evt_1",
};
const AGAIN = "2026-05-03T23:30:00.000Z";

/** What the database says, and what of it is sent. */
const MESSAGES: [message: object, sent: object][] = [
  [{ invoice_id: null }, {}],
  [{}, { invoice_id: "in_1" }],
  [STATED, { invoice_id: "in_1", ...STATED, next_payment_attempt: AGAIN }],
  [{ amount_due: 0 }, { invoice_id: "in_1", amount_due: 0 }],
  // No next attempt; one whose number is not known; and no attempt at all.
  ...[[8, null], [null, AGAIN], [0, null]].map((
    [attempt_count, next_payment_attempt],
  ): [object, object] => [{ attempt_count, next_payment_attempt }, {
    invoice_id: "in_1",
    ...(attempt_count !== null && { attempt_count }),
    next_payment_attempt,
  }]),
];
Deno.test("webhookChannel() posts what the event states, signed", async () => {
  for (const [message, sent] of MESSAGES) {
    const notification = { ...NOTIFICATION, ...NOT_STATED, ...message };
    const { attempt, request } = await send(undefined, {
      message: notification,
    });
    const { method, url, redirect, headers } = request;
    assertEquals(
      [attempt, method, url, redirect, headers.get("content-type")],
      [{ result: "sent" }, "POST", URL_TEXT, "manual", "application/json"],
    );
    assertEquals(headers.get("webhook-id"), NOTIFICATION.id);
    const text = await request.text();
    assertEquals(
      new Webhook(SECRET).verify(text, Object.fromEntries(headers)),
      {
        type: "billing.payment_failed",
        timestamp: "2026-11-21T06:24:03.113Z",
        data: { ...DATA, ...sent },
      },
    );
  }
  const clock = () => 1_795_242_999_900;
  const { request: { headers } } = await send(undefined, { clock });
  assertEquals(headers.get("webhook-timestamp"), "1795242999");
});

Deno.test("alertChannel() posts alerts, signed, in an order for people to read", async () => {
  const { newest_first_failed_at: _, ...opened } = OPENED.alert as Extract<
    Alert["alert"],
    { open: number }
  >;
  const cases: [message: Alert, timestamp: string, data: object][] = [
    [OPENED, "2026-11-21T06:25:00.113Z", {
      ...opened,
      first_failed_at: "2026-11-21T05:07:41.500Z",
      last_failed_at: "2026-11-21T06:24:03.113Z",
    }],
    [RESOLVED, "2026-11-21T09:00:00.500Z", {
      error_code: "event_invalid",
      resolved: 12,
      opened_at: "2026-11-21T06:25:00.113Z",
    }],
  ];
  for (const [message, timestamp, data] of cases) {
    const { attempt, request } = await send(undefined, { message });
    assertEquals(attempt, { result: "sent" });
    const text = await request.text();
    const headers = Object.fromEntries(request.headers);
    const type = `billing.${message.kind}`;
    assertEquals(headers["webhook-id"], message.id);
    assertEquals(new Webhook(SECRET).verify(text, headers), JSON.parse(text));
    assertEquals(text, JSON.stringify({ type, timestamp, data }));
  }
});

Deno.test("the channels name the host as their destination, and refuse a secret that is no base64", () => {
  const options = { secret: SECRET, fetch, clock: Date.now };
  const made = [webhookChannel, alertChannel].map((make) => {
    assertThrows(() => make(URL_TEXT, { ...options, secret: "whsec_?" }));
    return make(URL_TEXT, options).destination;
  });
  assertEquals(made, ["hooks.test:8443", "alerts to hooks.test:8443"]);
});

const hanging: Reply = (signal) =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
const throwing = (error: Error): Reply => () => {
  throw error;
};
const status = (status: number, after?: string): Reply => () =>
  new Response(
    null,
    after ? { status, headers: { "retry-after": after } } : { status },
  );
const answered = (status: number, rest = "") =>
  `the receiver answered ${status}${rest}`;
const failed = (error: string, retryAfterSeconds: number | undefined) =>
  ({ result: "failed", error, retryAfterSeconds }) as const;
const redirected = (status: number) =>
  answered(
    status,
    ", and redirects are not followed: set NOTIFICATION_URL to the final URL",
  );

const LATER = "Sat, 21 Nov 2026 06:25:00 GMT";
const failure = new TypeError("failed", { cause: new Error("refused") });

/** What becomes of an attempt, and the replies that it gets. */
const REPLIES: [attempt: Attempt, ...replies: Reply[]][] = [
  [{ result: "sent" }, ...[200, 201, 204, 299].map((code) => status(code))],
  [{ result: "dead", error: answered(410, " Gone") }, status(410)],
  ...[400, 401, 404, 408, 411, 428, 430, 500, 503].map((code) =>
    [failed(answered(code), 120), status(code, "120")] as [Attempt, Reply]
  ),
  ...[300, 302, 308, 399].map((code) =>
    [failed(redirected(code), undefined), status(code)] as [Attempt, Reply]
  ),
  [{ ...failed(answered(429), undefined), result: "limited" }, status(429)],
  [{ ...failed(answered(429), 0), result: "limited" }, status(429, "0")],
  [failed(answered(503), 59), status(503, LATER)],
  [{ result: "failed", error: "no answer within 20 ms" }, hanging],
  [{ result: "failed", error: "failed: refused" }, throwing(failure)],
  [{ result: "failed", error: "x" }, throwing(new TypeError("x"))],
];
// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

Deno.test("webhookChannel() reads the result from the reply, without its body", async () => {
  for (const [attempt, ...replies] of REPLIES) {
    for (const reply of replies) {
      const made = await send(reply, { clock: () => NOW });
      assertEquals(made.attempt, attempt);
    }
  }
  let isCanceled = false;
  const body = new ReadableStream({ cancel: () => void (isCanceled = true) });
  await send(() => new Response(body));
  assertEquals(isCanceled, true);
});

Deno.test("retryAfterSeconds() reads seconds or a date, rounded up", () => {
  const cases: [seconds: number | undefined, ...(string | null)[]][] = [
    [0, "0"],
    [7, "007"],
    [999_999_999, "999999999"],
    // The form that RFC 9110, section 5.6.7, asks for, and an obsolete one.
    [59, LATER, "Saturday, 21-Nov-26 06:25:00 GMT"],
    [1, "Sat, 21 Nov 2026 06:24:02 GMT"],
    [undefined, "Sat, 21 Nov 2026 06:24:00 GMT", null, "", "-5", "1.5", "10 s"],
    [undefined, "1e3", "soon"],
  ];
  for (const [seconds, ...headers] of cases) {
    for (const header of headers) {
      assertEquals(retryAfterSeconds(header, NOW), seconds, header ?? "none");
    }
  }
});

// As the runtimes put it; they write the URL in its normal form.
const URLS: [url: string, normal: string][] = [
  [URL_TEXT, URL_TEXT],
  ["https://hooks.test?LEAKED", "https://hooks.test/?LEAKED"],
  ["HTTPS://Hooks.Test:443/LEAKED", "https://hooks.test/LEAKED"],
  ["http://hooks.test/a b?LEAKED", "http://hooks.test/a%20b?LEAKED"],
  ["https://hooks.test/(a):b?(LEAKED)", "https://hooks.test/(a):b?(LEAKED)"],
  ["https://hooks.test/LEAKED#part", "https://hooks.test/LEAKED"],
];
Deno.test("the channels keep the URL out of their errors, and name its setting", async () => {
  const texts = [
    (url: string) => `error sending request for url (${url}): client error`,
    (url: string) => `error sending from 127.0.0.1:5 for ${url} (127.0.0.1:6)`,
  ];
  for (const [url, normal] of URLS) {
    for (const message of [NOTIFICATION, OPENED]) {
      const setting = message === OPENED ? "ALERT_URL" : "NOTIFICATION_URL";
      for (const text of texts) {
        const cause = new Error(text(normal));
        for (const error of [cause, new TypeError("fetch failed", { cause })]) {
          const { attempt } = await send(throwing(error), { url, message });
          const { error: says } = attempt as { error: string };
          assert(!/LEAKED|hooks\.test/.test(says), says);
          const [start = "", end = ""] = text("|").split("|");
          assert(says.includes(start + setting) && says.endsWith(end), says);
        }
      }
    }
  }
});
