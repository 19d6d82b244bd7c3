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
const redirected = (status: number) =>
  answered(
    status,
    ", and redirects are not followed: set NOTIFICATION_URL to the final URL",
  );

/** How the receiver replies, and what becomes of the attempt. */
const REPLIES: [
  reply: Reply,
  result: Attempt["result"],
  error?: string,
  retryAfterSeconds?: number,
][] = [
  ...[200, 201, 204, 299].map((code) => [status(code), "sent"] as const),
  [status(410), "dead", answered(410, " Gone")],
  ...[400, 401, 404, 408, 409, 411, 428, 430, 500, 503].map((code) =>
    [status(code, "120"), "failed", answered(code), 120] as const
  ),
  ...[300, 302, 308, 399].map((code) =>
    [status(code), "failed", redirected(code)] as const
  ),
  [status(429), "limited", answered(429)],
  [status(429, "0"), "limited", answered(429), 0],
  [status(503, "Sat, 21 Nov 2026 06:25:00 GMT"), "failed", answered(503), 59],
  [hanging, "failed", "no answer within 20 ms"],
  [throwing(new TypeError("refused")), "failed", "refused"],
  [
    throwing(new TypeError("failed", { cause: new Error("refused") })),
    "failed",
    "failed: refused",
  ],
].map((one) => one as (typeof REPLIES)[number]);
// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

Deno.test("webhookChannel() reads the result from the reply, without its body", async () => {
  for (const [reply, result, error, seconds] of REPLIES) {
    const { attempt } = await send(reply, { clock: () => NOW });
    const { result: is, error: says, retryAfterSeconds } = {
      error: undefined,
      retryAfterSeconds: undefined,
      ...attempt,
    };
    assertEquals([is, says, retryAfterSeconds], [result, error, seconds]);
  }
  let isCanceled = false;
  const body = new ReadableStream({ cancel: () => void (isCanceled = true) });
  await send(() => new Response(body));
  assertEquals(isCanceled, true);
});

Deno.test("retryAfterSeconds() reads seconds or a date, rounded up", () => {
  const cases: [header: string | null, seconds?: number][] = [
    ["0", 0],
    ["007", 7],
    ["999999999", 999_999_999],
    // The form that RFC 9110, section 5.6.7, asks for, and an obsolete one.
    ["Sat, 21 Nov 2026 06:25:00 GMT", 59],
    ["Saturday, 21-Nov-26 06:25:00 GMT", 59],
    ["Sat, 21 Nov 2026 06:24:02 GMT", 1],
    ["Sat, 21 Nov 2026 06:24:00 GMT"],
    ...[null, "", "-5", "1.5", "10 s", "1e3", "soon"].map((
      header,
    ): [string | null] => [header]),
  ];
  for (const [header, seconds] of cases) {
    assertEquals(retryAfterSeconds(header, NOW), seconds, header ?? "none");
  }
});

// As the runtimes put it; they write the URL in its normal form.
const URLS: [url: string, normal: string][] = [
  [URL_TEXT, URL_TEXT],
  ["https://hooks.test?LEAKED", "https://hooks.test/?LEAKED"],
  ["HTTPS://Hooks.Test:443/LEAKED", "https://hooks.test/LEAKED"],
  ["http://localhost/a b?LEAKED", "http://localhost/a%20b?LEAKED"],
  ["https://hooks.test/(a):b?(LEAKED)", "https://hooks.test/(a):b?(LEAKED)"],
  ["https://hooks.test/LEAKED#part", "https://hooks.test/LEAKED"],
];
Deno.test("the channels keep the URL out of their errors, and name its setting", async () => {
  for (const [url, normal] of URLS) {
    for (
      const text of [
        `error sending request for url (${normal}): client error (Connect)`,
        `error sending request from 127.0.0.1:5 for ${normal} (127.0.0.1:6): client error (SendRequest)`,
      ]
    ) {
      for (const message of [NOTIFICATION, OPENED]) {
        const cause = new Error(text);
        for (const error of [cause, new TypeError("fetch failed", { cause })]) {
          const { attempt } = await send(throwing(error), { url, message });
          const setting = message === OPENED ? "ALERT_URL" : "NOTIFICATION_URL";
          assert(attempt.result === "failed");
          assert(
            attempt.error.endsWith(text.replace(normal, setting)),
            attempt.error,
          );
        }
      }
    }
  }
});
