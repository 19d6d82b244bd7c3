/**
 * What the channels send. docs/notifications.md shows some of it, messages.txt the
 * rest: with UPDATE_EXAMPLES=1 in the environment, it is written into both.
 */
import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { NOTIFICATION_KINDS } from "../../../supabase/functions/_shared/billing/events/event_settings.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import type {
  Alert,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { retryAfterSeconds } from "../../../supabase/functions/billing-worker/channels/post_message.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { slackChannel } from "../../../supabase/functions/billing-worker/channels/slack_channel.ts";
import {
  alertChannel,
  webhookChannel,
} from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import {
  hanging,
  KEY_REFUSED,
  MISSED,
  NOTIFICATION,
  OPENED,
  RESOLVED,
  SLACK,
  STATED,
  SWEEP_FAILED,
  UNLISTED,
} from "./fixtures.ts";
import { NOTIFICATION_SECRET as secret } from "../../support/notified.ts";

const URL_TEXT = "https://hooks.test:8443/LEAKED?token=LEAKED";
// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

type Reply = (signal: AbortSignal) => Response | Promise<Response>;
type Message = Notification | Alert;

async function send(
  message: Message,
  reply: Reply = () => new Response("OK"),
  { url = URL_TEXT, projectUrl, now = NOW }: {
    url?: string;
    projectUrl?: string;
    now?: number;
  } = {},
) {
  const requests: Request[] = [];
  const options = {
    secret,
    projectUrl,
    clock: () => now,
    timeLimitMs: 20,
    fetch: async (input: URL | RequestInfo, init?: RequestInit) => {
      requests.push(new Request(input, { ...init, signal: null }));
      return await reply(init?.signal as AbortSignal);
    },
  };

  const alerts = (url === SLACK ? slackChannel : alertChannel)(url, options);
  const accounts = webhookChannel(url, options);
  const attempt = "alert" in message
    ? await alerts.send(message)
    : await accounts.send(message);

  const { host } = new URL(url);
  assertEquals([accounts.destination, alerts.destination], [
    host,
    `alerts to ${host}`,
  ]);
  assertEquals(requests.length, 1, "Redirects are not followed");
  const [request] = requests as [Request];
  const text = await request.clone().text();
  return { attempt, request, text, sent: JSON.parse(text) };
}

const AGAIN = { next_payment_attempt: "2026-05-03T23:30:00.000Z" };
const NEVER = { next_payment_attempt: null };

const MESSAGES: [stated: object, sent: object][] = [
  [{ amount_due: 0 }, { amount_due: 0 }],
  // No attempt at all, or one whose number is not known.
  [{ attempt_count: 0 }, { attempt_count: 0, ...NEVER }],
  [AGAIN, AGAIN],
];
Deno.test("webhooks say what is stated, and are signed", async () => {
  const { account_id, subscription_id, provider, event_id } = NOTIFICATION;
  const occurred_at = "2026-11-21T06:24:00.000Z";
  const ids = { account_id, subscription_id, provider, event_id, occurred_at };
  for (const [stated, expected] of MESSAGES) {
    const notification = { ...NOTIFICATION, invoice_id: null, ...stated };
    const { attempt, request, text, sent } = await send(notification);

    assertEquals(attempt, { result: "sent" });
    const { method, url, redirect, headers } = request;
    assertEquals([method, url, redirect], ["POST", URL_TEXT, "manual"]);
    assertEquals<unknown>(sent, {
      type: `billing.${notification.kind}`,
      timestamp: "2026-11-21T06:24:03.113Z",
      data: { ...ids, ...expected },
    });

    const { id } = NOTIFICATION;
    assertEquals(headers.get("webhook-id"), id);
    const seconds = `${Math.floor(NOW / 1000)}`;
    assertEquals(headers.get("webhook-timestamp"), seconds);
    const signature = new Webhook(secret).sign(id, new Date(NOW), text);
    assertEquals(headers.get("webhook-signature"), signature);
  }
});

const REF = "abcdefghijklmnopqrst";
const HOSTED = `https://${REF}.supabase.co`;
const { error: _, event_type: __, ...rest } = OPENED.alert;
const ONE = { ...rest, new: 1 };
const SLACK_TEXTS: [Alert["alert"], url: string, ...parts: string[]][] = [
  [
    ONE,
    HOSTED,
    "Billing: 1 new failed event with account_unknown\n",
    "evt_1 (type unknown, provider a)\n",
    `project/${REF}/sql/new`,
  ],
  [ONE, "https://a.b.supabase.co", "docs/operate.md"],
  [ONE, "http://127.0.0.1:54321", "docs/operate.md"],
  [
    { error_code: "sweep_failed", provider: "a" },
    "",
    "has succeeded yet\nLast error: unknown",
  ],
  // Otherwise it could mention a whole channel.
  [
    { ...OPENED.alert, event_type: "<!channel> & &lt;x>" },
    "",
    "3 new failed events",
    "(&lt;!channel&gt; &amp; &amp;lt;x&gt;,",
  ],
];
Deno.test("slackChannel() says what failed and what to do, and mentions no one", async () => {
  for (const [alert, projectUrl, ...parts] of SLACK_TEXTS) {
    const options = { url: SLACK, projectUrl };
    const { sent } = await send({ ...OPENED, alert }, undefined, options);
    // Slack does not say what it does with further fields.
    assertEquals(Object.keys(sent), ["text"]);
    for (const part of parts) assert(sent.text.includes(part), sent.text);
    assertEquals(
      sent.text.includes("/dashboard/"),
      projectUrl.includes(REF),
      sent.text,
    );
  }
});

const throwing = (error: Error): Reply => () => Promise.reject(error);
const MOVED =
  "failed: #, and redirects are not followed: set NOTIFICATION_URL to the final URL";
const refused = new TypeError("failed", { cause: new Error("refused") });
const limited = { status: 429, headers: { "retry-after": "7" } };

/** The result and its error, where # stands for the status, and the replies. */
const REPLIES: [outcome: string, ...replies: (number | Reply)[]][] = [
  ["sent", 200, 204, 299],
  ["dead: # Gone", 410],
  ["failed: #", 400, 401, 404, 411, 428, 500],
  [MOVED, 300, 308, 399],
  ["limited: #", 429],
  ["limited: the receiver answered 429 7", () => new Response(null, limited)],
  ["failed: no answer within 20 ms", hanging],
  ["failed: failed: refused", throwing(refused)],
  ["failed: x", throwing(new TypeError("x"))],
];
const RETRY_AFTER: [seconds: number | undefined, ...headers: string[]][] = [
  [0, "0"],
  [7, "007"],
  [999_999_999, "999999999"],
  // The form that RFC 9110, section 5.6.7, asks for, and an obsolete one.
  [59, "Sat, 21 Nov 2026 06:25:00 GMT", "Saturday, 21-Nov-26 06:25:00 GMT"],
  [1, "Sat, 21 Nov 2026 06:24:02 GMT"],
  [undefined, "Sat, 21 Nov 2026 06:24:00 GMT", "-5", "1.5", "10 s", "soon"],
];
Deno.test("a webhook's result is read from the reply, without its body", async () => {
  for (const [outcome, ...replies] of REPLIES) {
    for (const reply of replies) {
      const status = Number(reply);
      const answer = () => new Response(null, { status });
      const { attempt: { result, error, retryAfterSeconds = "" } } = await send(
        NOTIFICATION,
        typeof reply === "number" ? answer : reply,
      );
      const text = error ? `${result}: ${error} ${retryAfterSeconds}` : result;
      const expected = outcome.replace("#", `the receiver answered ${reply}`);
      assertEquals(text.trim(), expected);
    }
  }

  for (const [seconds, ...values] of RETRY_AFTER) {
    for (const value of values) {
      assertEquals(retryAfterSeconds(value, NOW), seconds, value);
    }
  }

  let isCanceled = false;
  const body = new ReadableStream({ cancel: () => void (isCanceled = true) });
  await send(NOTIFICATION, () => new Response(body));
  assertEquals(isCanceled, true);
});

// As the runtimes put it; they write the URL in its normal form.
const URLS: [url: string, normal: string][] = [
  [URL_TEXT, URL_TEXT],
  [SLACK, SLACK],
  ["https://hooks.test?LEAKED", "https://hooks.test/?LEAKED"],
  ["HTTPS://Hooks.Test:443/LEAKED", "https://hooks.test/LEAKED"],
  ["http://hooks.test/a b?LEAKED", "http://hooks.test/a%20b?LEAKED"],
  ["https://hooks.test/(a):b?(LEAKED", "https://hooks.test/(a):b?(LEAKED"],
  ["https://hooks.test/LEAKED#part", "https://hooks.test/LEAKED"],
];
Deno.test("the channels keep the URL out of their errors, and name its setting", async () => {
  const texts = [
    (url: string) => `error sending request for url (${url}): client error`,
    (url: string) => `error sending from 127.0.0.1:5 for ${url} (127.0.0.1:6)`,
  ];
  const messages: [setting: string, Message][] = [
    ["NOTIFICATION_URL", NOTIFICATION],
    ["ALERT_URL", OPENED],
    ["ALERT_URL", RESOLVED],
    ["ALERT_URL", UNLISTED],
  ];
  for (const [url, normal] of URLS) {
    for (const text of texts) {
      for (const [setting, message] of messages) {
        const cause = new Error(text(normal));
        const reply = throwing(new Error("x", { cause }));
        const { attempt } = await send(message, reply, { url });
        assertEquals(attempt.error, `x: ${text(setting)}`);
      }
    }
  }
});

const fileAt = (path: string) => new URL(`../../../${path}`, import.meta.url);

async function checkFile(path: string, change: (found: string) => string) {
  const file = fileAt(path);
  const found = await Deno.readTextFile(file);
  const expected = change(found);
  if (Deno.env.get("UPDATE_EXAMPLES") === "1") {
    await Deno.writeTextFile(file, expected);
  } else {
    assertEquals(found.split("\n"), expected.split("\n"), path);
  }
}

async function webhookExample(message: Message) {
  const now = Date.parse("2026-11-28T09:00:03Z");
  const { request, sent } = await send(message, undefined, { now });
  const headers = [...request.headers].map(([name, value]) =>
    `${name}: ${value}`
  );
  return [
    "POST /billing-notifications HTTP/1.1",
    ...headers,
    "",
    JSON.stringify(sent, null, 2),
  ].join("\n");
}

const OCCURRED = {
  ...NOTIFICATION,
  invoice_id: null,
  occurred_at: "2026-11-28T09:00:00+00:00",
  created_at: "2026-11-28T09:00:02.113987+00:00",
};
const PAYMENT = {
  ...OCCURRED,
  ...STATED,
  invoice_id: "in_1",
  attempt_count: 1,
  hosted_invoice_url:
    "https://invoice.example.com/i/acct_1ExampleShop/test_ExampleInvoice3",
  next_payment_attempt: "2026-12-01T09:00:00+00:00",
};
/** Every kind, and a payment of which nothing is known. */
const EXAMPLES: Notification[] = [
  PAYMENT,
  { ...OCCURRED, provider: "b", occurred_at: OCCURRED.created_at },
  {
    ...OCCURRED,
    kind: "trial_ending",
    trial_end: "2026-12-01T09:00:00+00:00",
  },
  { ...PAYMENT, kind: "action_required" },
  { ...OCCURRED, kind: "recovered" },
  { ...OCCURRED, kind: "ended", still_has_access: false },
  { ...OCCURRED, kind: "ended", still_has_access: true },
];
const ALERTS = [
  OPENED,
  RESOLVED,
  UNLISTED,
  MISSED,
  KEY_REFUSED,
  SWEEP_FAILED,
];
/** Each file that lists the kinds, and the list. */
const LISTS: [path: string, list: RegExp][] = [
  ["supabase/schemas/billing_08_notifications.sql", /\bkind in \(([^)]+)/],
  ["supabase/functions/.env.example", /^# The kinds .*: ([^]+?)\. /m],
  ["docs/notifications.md", /^supabase secrets set NOTIFY=(.+)/m],
];
Deno.test("every kind has an example, and is in each list", async () => {
  const kinds = [...NOTIFICATION_KINDS].sort();
  const shown = new Set(EXAMPLES.map(({ kind }) => kind));
  assertEquals([...shown].sort(), kinds);

  for (const [path, list] of LISTS) {
    const [, found = ""] = list.exec(await Deno.readTextFile(fileAt(path)))!;
    assertEquals<unknown>(found.match(/\w+/g)?.sort(), kinds, path);
  }
  for (const { kinds, notices = {} } of Object.values(FORMATS)) {
    const types = Object.keys(kinds).filter((type) => kinds[type] === "notice");
    assertEquals(types, Object.keys(notices));
  }
});
Deno.test("docs/notifications.md and messages.txt show what is sent", async () => {
  const shown = `\`\`\`http\n${await webhookExample(PAYMENT)}\n\`\`\``;
  await checkFile("docs/notifications.md", (page) => {
    const example = /^```http\n[^]*?^```$/m;
    assert(example.test(page));
    return page.replace(example, () => shown);
  });

  const sent = [
    "What is sent, in a line each; of e-mails the subject, and the text.",
  ];
  for (const message of [...EXAMPLES, ...ALERTS]) {
    sent.push((await send(message)).text);
  }
  for (const alert of ALERTS) {
    const options = { url: SLACK, projectUrl: HOSTED };
    sent.push((await send(alert, undefined, options)).sent.text);
  }
  for (const example of EXAMPLES) {
    const { subject, text } = renderEmail(emailTexts(example));
    sent.push([subject, ...text.split("\n\n")].join("\n"));
  }
  const path = "tests/unit/functions/messages.txt";
  await checkFile(path, () => `${sent.join("\n\n")}\n`);
});
