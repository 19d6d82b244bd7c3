/** How accounts and operators are told: by webhooks, Slack and e-mail. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type {
  Alert,
  Attempt,
  FailureOpened,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailChannel } from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { slackChannel } from "../../../supabase/functions/billing-worker/channels/slack_channel.ts";
import {
  alertChannel,
  webhookChannel,
} from "../../../supabase/functions/billing-worker/channels/webhook_channel.ts";
import {
  hanging,
  NOTIFICATION,
  NOTIFICATION_SECRET as secret,
  OPENED,
  RESOLVED,
  SLACK,
  STATED,
} from "./fixtures.ts";

const URL_TEXT = "https://hooks.test:8443/LEAKED?token=LEAKED";
// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

type Failed = Extract<Attempt, { retryAfterSeconds?: unknown }>;
type Reply = (signal: AbortSignal) => Response | Promise<Response>;
type Message = Notification | Alert;

/** Sends a notification, or an alert to a service or to Slack, answered so. */
async function send(
  message: Message,
  reply: Reply = () => new Response("OK"),
  { url = URL_TEXT, projectUrl }: { url?: string; projectUrl?: string } = {},
) {
  const requests: Request[] = [];
  const options = {
    ...{ secret, projectUrl, clock: () => NOW, timeLimitMs: 20 },
    fetch: async (input: URL | RequestInfo, init?: RequestInit) => {
      requests.push(new Request(input, { ...init, signal: null }));
      return await reply(init?.signal as AbortSignal);
    },
  };
  const alerts = url === SLACK ? slackChannel : alertChannel;
  const attempt = "kind" in message
    ? await alerts(url, options).send(message)
    : await webhookChannel(url, options).send(message);
  assertEquals(requests.length, 1, "Redirects are not followed");
  const [request] = requests as [Request];
  const text = await request.clone().text();
  return { attempt, request, text, sent: JSON.parse(text) };
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
const { newest_first_failed_at: _, ...opened } = OPENED.alert as FailureOpened;
const ALERTS: [message: Alert, timestamp: string, data: object][] = [
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
const SENT: [message: Message, type: string, timestamp: string, object][] = [
  ...MESSAGES.map(([stated, sent]): typeof SENT[number] => [
    { ...NOTIFICATION, ...stated },
    ...["payment_failed", "2026-11-21T06:24:03.113Z"] as const,
    { ...DATA, ...sent },
  ]),
  ...ALERTS.map(([message, ...sent]): typeof SENT[number] => {
    return [message, message.kind, ...sent];
  }),
];
Deno.test("webhooks say what is stated, in an order for people to read, and are signed", async () => {
  for (const [message, type, timestamp, data] of SENT) {
    const { attempt, request, text } = await send(message);
    const { method, url, redirect, headers } = request;
    assertEquals(
      [attempt, method, url, redirect, headers.get("content-type")],
      [{ result: "sent" }, "POST", URL_TEXT, "manual", "application/json"],
    );
    assertEquals(headers.get("webhook-id"), message.id);
    const seconds = `${Math.floor(NOW / 1000)}`;
    assertEquals(headers.get("webhook-timestamp"), seconds);
    const expected = { type: `billing.${type}`, timestamp, data };
    if ("kind" in message) assertEquals(text, JSON.stringify(expected));
    else assertEquals(JSON.parse(text), JSON.parse(JSON.stringify(expected)));
    const [, signature] = headers.get("webhook-signature")!.split(",");
    const signed = new Webhook(secret).sign(message.id, new Date(NOW), text);
    assertEquals(`v1,${signature}`, signed);
  }
});

Deno.test("the channels name the host as their destination, and refuse a secret that is no base64", () => {
  const options = { secret, fetch, clock: Date.now };
  const made = [webhookChannel, alertChannel].map((make) => {
    assertThrows(() => make(URL_TEXT, { ...options, secret: "whsec_?" }));
    return make(URL_TEXT, options).destination;
  });
  made.push(slackChannel(SLACK, options).destination);
  assertEquals(made, [
    "hooks.test:8443",
    "alerts to hooks.test:8443",
    "alerts to hooks.slack.com",
  ]);
});

const REF = "abcdefghijklmnopqrst";
const { error: __, event_type: ___, ...rest } = opened;
const one = { ...OPENED, alert: { ...rest, new: 1 } } as Alert;
const hostile = {
  ...OPENED,
  alert: { ...OPENED.alert, event_type: "<!channel> & &lt;x>" },
};

Deno.test("slackChannel() says what failed and what to do, or that nothing is open any more", async () => {
  const texts = async (message: Alert, projectUrl?: string) => {
    const options = { url: SLACK, ...(projectUrl && { projectUrl }) };
    const { attempt, sent } = await send(message, undefined, options);
    const { text, ...more } = sent;
    // Slack does not say what it does with further fields.
    assertEquals([attempt, more], [{ result: "sent" }, {}]);
    return text;
  };
  assertEquals(
    await texts(OPENED, `https://${REF}.supabase.co`),
    `Billing: 3 new failed events with event_invalid
Open: 12, since 2026-11-21 05:07 UTC.
Newest: evt_1 (customer.subscription.created, provider a): data.object.metadata.accountId is missing
What to do: run select * from billing.open_failures; in the SQL editor, and look up event_invalid in the receiver's docs/runbook.md
SQL editor: https://supabase.com/dashboard/project/${REF}/sql/new`,
  );
  assertEquals(
    await texts(RESOLVED),
    `Billing: no failed event with event_invalid is open any more.
Resolved: 12. Reported since 2026-11-21 06:25 UTC.
If more fail soon, the next alert may come up to an hour late: after a repair, look at billing.open_failures again.`,
  );
  const urls = ["http://127.0.0.1:54321", "https://a.b.supabase.co"];
  for (const url of [undefined, ...urls]) {
    const lines = (await texts(one, url)).split("\n");
    assertEquals(lines[0], "Billing: 1 new failed event with event_invalid");
    assertEquals(lines[2], "Newest: evt_1 (type unknown, provider a)");
    assertEquals(lines.length, 4);
  }
  // Otherwise it could mention a whole channel.
  const text = await texts(hostile);
  assert(text.includes("(&lt;!channel&gt; &amp; &amp;lt;x&gt;, pro"), text);
});

const throwing = (error: Error): Reply => () => Promise.reject(error);
const status = (status: number, after?: string): Reply => () => {
  const headers = new Headers(after ? { "retry-after": after } : {});
  return new Response(null, { status, headers });
};
const MOVED =
  ", and redirects are not followed: set NOTIFICATION_URL to the final URL";
const refused = new TypeError("failed", { cause: new Error("refused") });
const each = (codes: number[], after?: string) =>
  codes.map((code): [Reply, number] => [status(code, after), code]);
const after = (...headers: string[]) =>
  headers.flatMap((header) => each([429], header));

/** The result, what the error says after the status, and Retry-After. */
type Row = [
  ...[result: string, error: string | undefined, seconds: number | undefined],
  ...replies: [reply: Reply, status?: number][],
];
const none = undefined;
const REPLIES: Row[] = [
  ["sent", none, none, ...each([200, 204, 299])],
  ["dead", " Gone", none, ...each([410])],
  ["failed", "", 120, ...each([400, 401, 404, 411, 428, 500], "120")],
  ["failed", MOVED, none, ...each([300, 308, 399])],
  ["limited", "", none, ...each([429])],
  ["limited", "", 0, ...after("0")],
  ["limited", "", 7, ...after("007")],
  ["limited", "", 999_999_999, ...after("999999999")],
  // The form that RFC 9110, section 5.6.7, asks for, and an obsolete one.
  ["limited", "", 59, ...after("Sat, 21 Nov 2026 06:25:00 GMT")],
  ["limited", "", 59, ...after("Saturday, 21-Nov-26 06:25:00 GMT")],
  ["limited", "", 1, ...after("Sat, 21 Nov 2026 06:24:02 GMT")],
  ["limited", "", none, ...after("Sat, 21 Nov 2026 06:24:00 GMT")],
  ["limited", "", none, ...after("-5", "1.5", "10 s", "1e3", "soon")],
  ["failed", "no answer within 20 ms", none, [hanging]],
  ["failed", "failed: refused", none, [throwing(refused)]],
  ["failed", "x", none, [throwing(new TypeError("x"))]],
];
Deno.test("a webhook's result is read from the reply, without its body", async () => {
  for (const [result, says, seconds, ...replies] of REPLIES) {
    for (const [reply, code] of replies) {
      const { attempt } = await send(NOTIFICATION, reply);
      const { error, retryAfterSeconds } = attempt as Failed;
      const start = code && says !== none
        ? `the receiver answered ${code}`
        : "";
      assertEquals(error, says === none ? none : start + says);
      assertEquals([attempt.result, retryAfterSeconds], [result, seconds]);
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
  const settings = [["NOTIFICATION_URL", NOTIFICATION], ["ALERT_URL", OPENED]];
  for (const [url, normal] of URLS) {
    for (const text of texts) {
      for (const [setting, message] of settings as [string, Message][]) {
        const cause = new Error(text(normal));
        const reply = throwing(new Error("x", { cause }));
        const { attempt } = await send(message, reply, { url });
        assertEquals((attempt as Failed).error, `x: ${text(setting)}`);
      }
    }
  }
});

/** One attempt through the package, against an API that answers so, or none. */
async function mail(
  answer?: () => Response,
  addressOf = (): Promise<string | null> => Promise.resolve("a@example.com"),
) {
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
  return { attempt: attempt as { result: string; error?: string }, sent };
}
const FROM = "Billing <billing@example.com>";
const accepted = () => Response.json({ id: "mail_1" });

Deno.test("emailChannel() mails the account, once per notification", async () => {
  const { attempt, sent } = await mail(accepted);
  const [[path, headers, body]] = sent as [typeof sent[number]];
  assertEquals<unknown>([attempt, sent.length], [{ result: "sent" }, 1]);
  assertEquals(
    [path, headers.get("authorization"), headers.get("idempotency-key")],
    ["/emails", "Bearer re_LEAKED", NOTIFICATION.id],
  );
  const rendered = renderEmail(emailTexts({ ...NOTIFICATION, ...STATED }));
  assertEquals(body, { from: FROM, to: "a@example.com", ...rendered });
  const none = await mail(accepted, () => Promise.resolve(null));
  assertEquals([none.attempt.result, none.sent], ["undeliverable", []]);
});

/** Answers that are no answer of Resend; 429 is understood all the same. */
const GARBAGE: [result: string, status: number, ...bodies: string[]][] = [
  ["failed", 502, "null", '"no"', "[]", "{}", "17", "<html>", ""],
  ["failed", 200, "null", "<html>", ""],
  ["limited", 429, "<html>", ""],
];
Deno.test("emailChannel() reads the result from the answer, whatever it is", async () => {
  for (const [expected, status, ...bodies] of GARBAGE) {
    for (const body of bodies) {
      const answer = () => new Response(body, { status });
      const { result, error = "" } = (await mail(answer)).attempt;
      assertEquals(result, expected, body);
      assert(error !== "" && !/undefined|LEAKED/.test(error), error);
    }
  }
  // Resend answers 429 for its quotas as well.
  for (const [statusCode, result] of [[401, "failed"], [429, "limited"]]) {
    const error = { statusCode, name: "a_name", message: "Says why" };
    const headers = { "retry-after": "Sat, 21 Nov 2026 06:34:00 GMT" };
    const init = { status: Number(statusCode), headers };
    const { attempt } = await mail(() => Response.json(error, init));
    const says = { error: "Resend: a_name: Says why", retryAfterSeconds: 600 };
    assertEquals<unknown>(attempt, { result, ...says });
  }
  const { attempt } = await mail(undefined);
  assertEquals(attempt.result, "failed");
  assert(!attempt.error?.includes("LEAKED"), attempt.error);
  const failed = await mail(accepted, () => Promise.reject(new Error("why")));
  assertEquals(failed.attempt, { result: "failed", error: "why" });
});

const NO_LINK = "Please check your payment method.";
const TRIED_AGAIN = "We will try again on 3 May 2026 (UTC).";
const LAST = "No further attempt is scheduled.";
const LINK = "You can pay the invoice now:";
const IN_ZONE = { next_payment_attempt: "2026-05-04T00:30:00+02:00" };
const HOSTILE = { account_id: "evil\r\nBcc: x", event_id: "evil\r\nBcc: x" };
type Details = Partial<Notification>;

/** What is stated, the amount, and the paragraphs after the first. */
const TEXTS: [details: Details, amount: string, ...paragraphs: string[]][] = [
  [STATED, " of €19.00", TRIED_AGAIN, LINK],
  [{ ...STATED, next_payment_attempt: null }, " of €19.00", LAST, LINK],
  [{ invoice_id: null }, "", NO_LINK],
  [{ attempt_count: 0 }, "", LAST, NO_LINK],
  [IN_ZONE, "", TRIED_AGAIN, NO_LINK],
  [{ amount_due: 1900 }, "", NO_LINK],
  [{ currency: "eur" }, "", NO_LINK],
  [{ amount_due: 1900, currency: "" }, "", NO_LINK],
  [{ amount_due: 0, currency: "eur" }, " of €0.00", NO_LINK],
  [HOSTILE, "", NO_LINK],
];
Deno.test("emailTexts() says what is stated, in any time zone, and claims nothing else", () => {
  for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago"]) {
    Deno.env.set("TZ", zone);
    for (const [details, amount, ...paragraphs] of TEXTS) {
      const one = { ...NOTIFICATION, ...details };
      const url = one.hosted_invoice_url;
      const start = `We could not collect the payment${amount} for your`;
      const invoice = one.invoice_id ? "Invoice: in_1, " : "";
      assertEquals(emailTexts(one), {
        subject: `Your payment${amount} failed`,
        paragraphs: [`${start} subscription.`, ...paragraphs],
        link: url ? { label: "Pay the invoice", url } : undefined,
        footer: `${invoice}Subscription: sub_1`,
      });
    }
  }
  Deno.env.delete("TZ");
});

Deno.test("renderEmail() puts the same words into text and HTML, escaped, and loads nothing", () => {
  const word = `</p><script>alert("1")</script><img src='x' onerror=a>&lt;`;
  const escaped =
    "&lt;/p&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&lt;img src=&#39;x&#39; onerror=a&gt;&amp;lt;";
  const url = `https://pay.example.com/?a=1&b=${word}`;
  const link = { label: `label ${word}`, url };
  const texts = { subject: word, paragraphs: ["One.", word], footer: word };
  const { subject, text, html } = renderEmail({ ...texts, link });
  assertEquals([subject, text], [word, `One.\n\n${word}\n\n${url}\n\n${word}`]);
  const parts = [
    ...[`<title>${escaped}</title>`, "<p>One.</p>", `<p>${escaped}</p>`],
    ...[`>label ${escaped}</a>`, `px">${escaped}</p>`],
    `href="https://pay.example.com/?a=1&amp;b=${escaped}"`,
  ];
  for (const part of parts) assertEquals(html.split(part).length, 2, part);
  const loads = /<(?:img|link|script|iframe)|url\(|@import/;
  assertEquals([loads.test(html), html.match(/https?:/g)?.length], [false, 1]);
  const plain = renderEmail({ ...texts, link: undefined });
  assertEquals(plain.text, `One.\n\n${word}\n\n${word}`);
  assert(!plain.html.includes("<a"), plain.html);
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
