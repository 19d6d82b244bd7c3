import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type {
  Alert,
  Attempt,
  FailureOpened,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { retryAfterSeconds } from "../../../supabase/functions/billing-worker/channels/post_message.ts";
import {
  alertChannel,
  webhookChannel,
} from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import {
  hanging,
  NOT_STATED,
  NOTIFICATION,
  OPENED,
  RESOLVED,
  STATED,
} from "./fixtures.ts";

const URL_TEXT = "https://hooks.test:8443/LEAKED?token=LEAKED";
const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

type Failed = Extract<Attempt, { retryAfterSeconds?: unknown }>;
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
  ...{ account_id: "acc_1", subscription_id: "sub_1" },
  ...{ provider: "a", event_id: "evt_1", invoice_id: "in_1" },
};
const AGAIN = { next_payment_attempt: "2026-05-03T23:30:00.000Z" };
const NEVER = { next_payment_attempt: null };

/** What the database says, and what of it is sent. */
const MESSAGES: [message: object, sent: object][] = [
  [{}, {}],
  [{ invoice_id: null }, { invoice_id: undefined }],
  [STATED, { ...STATED, ...AGAIN }],
  [{ amount_due: 0 }, { amount_due: 0 }],
  // No next attempt, none at all, or one whose number is not known.
  [{ attempt_count: 8 }, { attempt_count: 8, ...NEVER }],
  [{ attempt_count: 0 }, { attempt_count: 0, ...NEVER }],
  [AGAIN, AGAIN],
];
Deno.test("webhookChannel() posts what the event states, signed", async () => {
  for (const [stated, sent] of MESSAGES) {
    const message = { ...NOTIFICATION, ...NOT_STATED, ...stated };
    const { attempt, request } = await send(undefined, { message });
    const { method, url, redirect, headers } = request;
    assertEquals(
      [attempt, method, url, redirect, headers.get("content-type")],
      [{ result: "sent" }, "POST", URL_TEXT, "manual", "application/json"],
    );
    assertEquals(headers.get("webhook-id"), NOTIFICATION.id);
    const text = await request.text();
    const all = Object.fromEntries(headers);
    assertEquals(new Webhook(SECRET).verify(text, all), {
      type: "billing.payment_failed",
      timestamp: "2026-11-21T06:24:03.113Z",
      data: JSON.parse(JSON.stringify({ ...DATA, ...sent })),
    });
  }
  const clock = () => 1_795_242_999_900;
  const { request: { headers } } = await send(undefined, { clock });
  assertEquals(headers.get("webhook-timestamp"), "1795242999");
});

Deno.test("alertChannel() posts alerts, signed, in an order for people to read", async () => {
  const alert = OPENED.alert as FailureOpened;
  const { newest_first_failed_at: _, ...opened } = alert;
  const cases: [message: Alert, timestamp: string, data: object][] = [
    [OPENED, "2026-11-21T06:25:00.113Z", {
      ...opened,
      first_failed_at: "2026-11-21T05:07:41.500Z",
      last_failed_at: "2026-11-21T06:24:03.113Z",
    }],
    [RESOLVED, "2026-11-21T09:00:00.500Z", {
      ...RESOLVED.alert,
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

const throwing = (error: Error): Reply => () => Promise.reject(error);
const status = (status: number, after?: string): Reply => () => {
  const headers = new Headers(after ? { "retry-after": after } : {});
  return new Response(null, { status, headers });
};
const MOVED =
  ", and redirects are not followed: set NOTIFICATION_URL to the final URL";
const LATER = "Sat, 21 Nov 2026 06:25:00 GMT";
const refused = new TypeError("failed", { cause: new Error("refused") });
const each = (codes: number[], after?: string) =>
  codes.map((code): [Reply, number] => [status(code, after), code]);

/** The result, what the error says after the status, and Retry-After. */
type Row = [
  ...[result: string, error: string | undefined, seconds: number | undefined],
  ...replies: [reply: Reply, status?: number][],
];
const none = undefined;
const REPLIES: Row[] = [
  ["sent", none, none, ...each([200, 201, 204, 299])],
  ["dead", " Gone", none, ...each([410])],
  ["failed", "", 120, ...each([400, 401, 404, 408, 411, 428, 500], "120")],
  ["failed", MOVED, none, ...each([300, 302, 308, 399])],
  ["limited", "", none, ...each([429])],
  ["limited", "", 59, ...each([429], LATER)],
  ["failed", "no answer within 20 ms", none, [hanging]],
  ["failed", "failed: refused", none, [throwing(refused)]],
  ["failed", "x", none, [throwing(new TypeError("x"))]],
];
// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

Deno.test("webhookChannel() reads the result from the reply, without its body", async () => {
  for (const [result, says, seconds, ...replies] of REPLIES) {
    for (const [reply, code] of replies) {
      const { attempt } = await send(reply, { clock: () => NOW });
      const { error, retryAfterSeconds } = attempt as Failed;
      const answered = code && says !== none
        ? `the receiver answered ${code}`
        : "";
      assertEquals(error, says === none ? none : answered + says);
      assertEquals([attempt.result, retryAfterSeconds], [result, seconds]);
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
    for (const text of texts) {
      for (const message of [NOTIFICATION, OPENED]) {
        const failing = throwing(
          new Error("x", { cause: new Error(text(normal)) }),
        );
        const { attempt } = await send(failing, { url, message });
        const { error } = attempt as Failed;
        assert(!/LEAKED|hooks\.test/.test(error), error);
        const setting = message === OPENED ? "ALERT_URL" : "NOTIFICATION_URL";
        const [start = "", end = ""] = text("|").split("|");
        assert(error.includes(start + setting) && error.endsWith(end), error);
      }
    }
  }
});
