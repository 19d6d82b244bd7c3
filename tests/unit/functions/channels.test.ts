/**
 * How accounts and operators are told: by webhooks, Slack and e-mail.
 * docs/notifications.md shows some of what is sent, messages.txt the rest. With
 * UPDATE_EXAMPLES=1 in the environment, it is written into both.
 */
import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type {
  Alert,
  FailureOpened,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailChannel } from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";
import { retryAfterSeconds } from "../../../supabase/functions/billing-worker/channels/post_message.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { slackChannel } from "../../../supabase/functions/billing-worker/channels/slack_channel.ts";
import {
  alertChannel,
  webhookChannel,
} from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import {
  hanging,
  NOTIFICATION,
  OPENED,
  RESOLVED,
  SLACK,
  STATED,
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
  const destinations = [accounts.destination, alerts.destination];
  assertEquals(destinations, [host, `alerts to ${host}`]);
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
    const { method, url, redirect, headers } = request;
    assertEquals([attempt, method, url, redirect], [
      { result: "sent" },
      "POST",
      URL_TEXT,
      "manual",
    ]);
    assertEquals<unknown>(sent, {
      type: `billing.${notification.kind}`,
      timestamp: "2026-11-21T06:24:03.113Z",
      data: { ...ids, ...expected },
    });
    const of = ["id", "timestamp", "signature"]
      .map((name) => headers.get(`webhook-${name}`));
    const signature = new Webhook(secret)
      .sign(NOTIFICATION.id, new Date(NOW), text);
    const seconds = `${Math.floor(NOW / 1000)}`;
    assertEquals(of, [NOTIFICATION.id, seconds, signature]);
  }
});

const REF = "abcdefghijklmnopqrst";
const HOSTED = `https://${REF}.supabase.co`;
const { error: _, event_type: __, ...rest } = OPENED.alert as FailureOpened;
const ONE = { ...rest, new: 1 };
const HOSTILE = { ...OPENED.alert, event_type: "<!channel> & &lt;x>" };
const SLACK_TEXTS: [Alert["alert"], url: string, ...parts: string[]][] = [
  [ONE, HOSTED, "Billing: 1 new failed event with account_unknown\n"],
  [ONE, HOSTED, "evt_1 (type unknown, provider a)\n", `project/${REF}/sql/new`],
  [ONE, "https://a.b.supabase.co", "docs/operate.md"],
  [ONE, "http://127.0.0.1:54321", "docs/operate.md"],
  // Otherwise it could mention a whole channel.
  [
    HOSTILE,
    "",
    "3 new failed events",
    "(&lt;!channel&gt; &amp; &amp;lt;x&gt;,",
  ],
];
Deno.test("slackChannel() says what failed and what to do, and mentions nobody", async () => {
  for (const [alert, projectUrl, ...parts] of SLACK_TEXTS) {
    const options = { url: SLACK, projectUrl };
    const { sent } = await send({ ...OPENED, alert }, undefined, options);
    // Slack does not say what it does with further fields.
    assertEquals(Object.keys(sent), ["text"]);
    for (const part of parts) assert(sent.text.includes(part), sent.text);
    const hasEditor = sent.text.includes("/dashboard/");
    assertEquals(hasEditor, projectUrl.includes(REF), sent.text);
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
  const alerts = [OPENED, RESOLVED, UNLISTED].map((
    alert,
  ) => ["ALERT_URL", alert]);
  const settings = [["NOTIFICATION_URL", NOTIFICATION], ...alerts];
  for (const [url, normal] of URLS) {
    for (const text of texts) {
      for (const [setting, message] of settings as [string, Message][]) {
        const cause = new Error(text(normal));
        const reply = throwing(new Error("x", { cause }));
        const { attempt } = await send(message, reply, { url });
        assertEquals(attempt.error, `x: ${text(setting)}`);
      }
    }
  }
});

const FROM = "Billing <billing@example.com>";
const found = (): Promise<string | null> => Promise.resolve("a@example.com");

async function mail(answer?: () => Response, addressOf = found) {
  const sent: [path: string, headers: Headers, body: unknown][] = [];
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(options, async (request) => {
    const { pathname } = new URL(request.url);
    sent.push([pathname, request.headers, await request.json()]);
    return answer!();
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  if (answer === undefined) await server.shutdown();
  const clock = () => Date.parse("2026-11-21T06:24:00Z");
  const settings = { apiKey: "re_LEAKED", from: FROM, perSecond: 2 };
  const channel = emailChannel({ ...settings, addressOf, clock });
  // Where the package itself looks for it.
  Deno.env.set("RESEND_BASE_URL", url);
  const attempt = await channel.send({ ...NOTIFICATION, ...STATED });
  Deno.env.delete("RESEND_BASE_URL");
  if (answer !== undefined) await server.shutdown();
  return { sent, ...attempt };
}

const answering = (status: number, ...bodies: string[]) =>
  bodies.map((body) => () => new Response(body, { status }));
const refusing = (statusCode: number) => () => {
  const headers = { "retry-after": "Sat, 21 Nov 2026 06:34:00 GMT" };
  const error = { statusCode, name: "a_name", message: "Says why" };
  return Response.json(error, { status: statusCode, headers });
};
/** Resend answers 429 for its quotas as well; or it is no answer of Resend. */
const RESULTS: [result: string, ...answers: (() => Response)[]][] = [
  ["failed", refusing(401), ...answering(502, "null", '"no"', "[]", "{}")],
  ["failed", ...answering(502, "17", "<html>", "")],
  ["failed", ...answering(200, "null", "<html>", "")],
  ["limited", refusing(429), ...answering(429, "<html>")],
];
Deno.test("emailChannel() mails the account, once per notification, and reads the result from any answer", async () => {
  const accepted = () => Response.json({ id: "mail_1" });
  const { sent: [first, ...more], ...attempt } = await mail(accepted);
  assertEquals<unknown>([attempt, more], [{ result: "sent" }, []]);
  const [path, headers, body] = first!;
  assertEquals(
    [path, headers.get("authorization"), headers.get("idempotency-key")],
    ["/emails", "Bearer re_LEAKED", NOTIFICATION.id],
  );
  const rendered = renderEmail(emailTexts({ ...NOTIFICATION, ...STATED }));
  assertEquals(body, { from: FROM, to: "a@example.com", ...rendered });

  for (const [expected, ...answers] of RESULTS) {
    for (const answer of answers) {
      const { sent: _, ...attempt } = await mail(answer);
      const { result, error = "" } = attempt;
      assertEquals(result, expected);
      assert(error !== "" && !/undefined|LEAKED/.test(error), error);
      if (error.includes("a_name")) {
        const says = { error: "Resend: a_name: Says why" };
        assertEquals<unknown>(attempt, {
          result,
          ...says,
          retryAfterSeconds: 600,
        });
      }
    }
  }
  const none = await mail(undefined);
  assertEquals([none.result, /LEAKED/.test(`${none.error}`)], [
    "failed",
    false,
  ]);
  const unknown = await mail(accepted, () => Promise.resolve(null));
  assertEquals([unknown.result, unknown.sent], ["undeliverable", []]);
  const failed = await mail(accepted, () => Promise.reject(new Error("why")));
  assertEquals(failed, { sent: [], result: "failed", error: "why" });
});

const NO_LINK = "Please check your payment method.";
const TRIED_AGAIN = "We will try again on 3 May 2026 (UTC).";
const IN_ZONE = { next_payment_attempt: "2026-05-04T00:30:00+02:00" };

/** What is stated, the amount, and the paragraphs after the first; messages.txt has more. */
const TEXTS: [stated: object, amount: string, ...paragraphs: string[]][] = [
  [{ attempt_count: 0 }, "", "No further attempt is scheduled.", NO_LINK],
  [IN_ZONE, "", TRIED_AGAIN, NO_LINK],
  [{ amount_due: 1900 }, "", NO_LINK],
  [{ currency: "eur" }, "", NO_LINK],
  [{ amount_due: 0, currency: "eur" }, " of €0.00", NO_LINK],
];
Deno.test("emailTexts() says what is stated, in any time zone, and claims nothing else", () => {
  for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago"]) {
    Deno.env.set("TZ", zone);
    for (const [details, amount, ...paragraphs] of TEXTS) {
      const texts = emailTexts({ ...NOTIFICATION, ...details });
      const [first, ...more] = texts.paragraphs;
      assert(first!.includes(`the payment${amount} for your`), first);
      assertEquals([more, texts.link], [paragraphs, undefined]);
    }
  }
  Deno.env.delete("TZ");
  const confirm = { ...NOTIFICATION, ...STATED, kind: "action_required" };
  assertEquals(emailTexts(confirm).link?.label, "Confirm the payment");
  assertEquals(emailTexts({ ...confirm, kind: "ended" }).link, undefined);
  const unlinked = emailTexts({ ...confirm, hosted_invoice_url: null });
  const last = unlinked.paragraphs.at(-1);
  assertEquals(last, "Please open your billing page to confirm it.");
});

Deno.test("renderEmail() escapes what it is given, and loads nothing", () => {
  const word = `</p><script>alert("1")</script><img src='x' onerror=a>&lt;`;
  const escaped =
    "&lt;/p&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&lt;img src=&#39;x&#39; onerror=a&gt;&amp;lt;";
  const url = `https://pay.example.com/?a=1&b=${word}`;
  const texts = { subject: word, paragraphs: [word, word], footer: word };
  const link = { label: word, url };
  for (const [given, places] of [[undefined, 4], [link, 6]] as const) {
    const { subject, text, html } = renderEmail({ ...texts, link: given });
    const parts = [word, word, ...(given ? [url] : []), word];
    assertEquals([subject, text], [word, parts.join("\n\n")]);
    assertEquals(html.split(escaped).length - 1, places);
    const loads = /<(?:img|link|script|iframe)|url\(|@import/;
    const links = html.match(/<a|https?:/g)?.length;
    assertEquals([loads.test(html), links], [false, given && 2]);
  }
});

/** Amounts in Stripe's smallest unit. */
const AMOUNTS = `
1900 eur €19.00 | 1999 usd $19.99 | 5 usd $0.05 | 0 eur €0.00
123456789 gbp £1,234,567.89 | 1050 cad CA$10.50 | 1050 chf CHF 10.50
1900 zzz ZZZ 19.00
9007199254740991 eur €90,071,992,547,409.91
9007199254740991 kwd KWD 9,007,199,254,740.991
500 jpy ¥500 | 50000 krw ₩50,000 | 500 vnd ₫500 | 500 bif BIF 500
500 clp CLP 500 | 500 djf DJF 500 | 500 gnf GNF 500 | 500 kmf KMF 500
500 mga MGA 500 | 500 pyg PYG 500 | 500 rwf RWF 500 | 500 vuv VUV 500
500 xaf FCFA 500 | 500 xof F CFA 500 | 500 xpf CFPF 500
5120 kwd KWD 5.120 | 5120 bhd BHD 5.120 | 5120 jod JOD 5.120
5120 omr OMR 5.120 | 5120 tnd TND 5.120`;
/** Hundredths to Stripe, although payouts or Intl have none; or no decimals. */
const HUNDREDTHS = `
1045 huf HUF 10.45 | 80045 twd NT$800.45 | 12300 rsd RSD 123.00
12300 lbp LBP 123.00 | 500 isk ISK 5 | 500 ugx UGX 5`;
Deno.test("formatAmount() has as many decimals as Stripe", () => {
  for (const row of (AMOUNTS + HUNDREDTHS).trim().split(/\n| \| /)) {
    const [amount = "", currency = "", ...text] = row.split(" ");
    assertEquals(formatAmount(Number(amount), currency), text.join(" "), row);
  }
});

async function checkFile(path: string, change: (found: string) => string) {
  const file = new URL(`../../../${path}`, import.meta.url);
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
/** Every kind, and a payment that is tried no more or of which nothing is known. */
const EXAMPLES: Notification[] = [
  PAYMENT,
  { ...PAYMENT, attempt_count: 8, next_payment_attempt: null },
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
const FAILED_AT = "2026-11-28T09:00:01.5+00:00";
const ALERTS: Alert[] = [
  {
    ...OPENED,
    id: NOTIFICATION.id,
    created_at: OCCURRED.created_at,
    alert: {
      ...OPENED.alert as FailureOpened,
      open: 1,
      new: 1,
      error:
        "data.object.metadata.accountId is missing, and account_of_customer knows no account of the customer.",
      first_failed_at: FAILED_AT,
      last_failed_at: FAILED_AT,
    },
  },
  {
    ...RESOLVED,
    id: NOTIFICATION.id,
    created_at: OCCURRED.created_at,
    alert: {
      error_code: "account_unknown",
      resolved: 1,
      opened_at: "2026-11-28T08:20:02.25+00:00",
    },
  },
  { ...UNLISTED, id: NOTIFICATION.id, created_at: OCCURRED.created_at },
];
Deno.test("docs/notifications.md and messages.txt show what accounts and operators are sent", async () => {
  const mails = EXAMPLES.map((one) => renderEmail(emailTexts(one)));
  const [{ subject, text }] = mails as [typeof mails[number]];
  const shown = [
    await webhookExample(PAYMENT),
    `From: ${FROM}\nTo: owner@example.com\nSubject: ${subject}\n\n${text}`,
  ];
  await checkFile("docs/notifications.md", (page) => {
    const left = shown.values();
    const changed = page.replaceAll(
      /^```(http|text)\n[^]*?^```$/gm,
      (_, language: string) =>
        `\`\`\`${language}\n${left.next().value}\n\`\`\``,
    );
    assertEquals([...left], []);
    return changed;
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
  for (const { subject, text } of mails) {
    sent.push([subject, ...text.split("\n\n")].join("\n"));
  }
  const path = "tests/unit/functions/messages.txt";
  await checkFile(path, () => `${sent.join("\n\n")}\n`);
});
