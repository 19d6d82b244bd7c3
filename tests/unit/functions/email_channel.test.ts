import { assert, assertEquals } from "@std/assert";
import type { Notification } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailChannel } from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { NOTIFICATION, STATED } from "./fixtures.ts";

/** One attempt through the package, against an API that answers so, or none. */
async function send(
  answer?: () => Response,
  addressOf = (): Promise<string | null> => Promise.resolve("a@example.com"),
) {
  const sent: [path: string, headers: Headers, mail: unknown][] = [];
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
  const { attempt, sent } = await send(accepted);
  const [[path, headers, mail]] = sent as [typeof sent[number]];
  assertEquals<unknown>([attempt, sent.length], [{ result: "sent" }, 1]);
  assertEquals(
    [path, headers.get("authorization"), headers.get("idempotency-key")],
    ["/emails", "Bearer re_LEAKED", NOTIFICATION.id],
  );
  const rendered = renderEmail(emailTexts({ ...NOTIFICATION, ...STATED }));
  assertEquals(mail, { from: FROM, to: "a@example.com", ...rendered });
  const none = await send(accepted, () => Promise.resolve(null));
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
      const { result, error = "" } = (await send(answer)).attempt;
      assertEquals(result, expected, body);
      assert(error !== "" && !/undefined|LEAKED/.test(error), error);
    }
  }
  // Resend answers 429 for its quotas as well.
  for (const [statusCode, result] of [[401, "failed"], [429, "limited"]]) {
    const error = { statusCode, name: "a_name", message: "Says why" };
    const headers = { "retry-after": "Sat, 21 Nov 2026 06:34:00 GMT" };
    const init = { status: Number(statusCode), headers };
    const { attempt } = await send(() => Response.json(error, init));
    const says = { error: "Resend: a_name: Says why", retryAfterSeconds: 600 };
    assertEquals<unknown>(attempt, { result, ...says });
  }
  const { attempt } = await send(undefined);
  assertEquals(attempt.result, "failed");
  assert(!attempt.error?.includes("LEAKED"), attempt.error);
  const failed = await send(accepted, () => Promise.reject(new Error("why")));
  assertEquals(failed.attempt, { result: "failed", error: "why" });
});

const NO_LINK = "Please check your payment method.";
const AGAIN = "We will try again on 3 May 2026 (UTC).";
const LAST = "No further attempt is scheduled.";
const LINK = "You can pay the invoice now:";
const IN_ZONE = { next_payment_attempt: "2026-05-04T00:30:00+02:00" };
const HOSTILE = { account_id: "evil\r\nBcc: x", event_id: "evil\r\nBcc: x" };
type Details = Partial<Notification>;

/** What is stated, the amount, and the paragraphs after the first. */
const TEXTS: [details: Details, amount: string, ...paragraphs: string[]][] = [
  [STATED, " of €19.00", AGAIN, LINK],
  [{ ...STATED, next_payment_attempt: null }, " of €19.00", LAST, LINK],
  [{ invoice_id: null }, "", NO_LINK],
  [{ attempt_count: 0 }, "", LAST, NO_LINK],
  [IN_ZONE, "", AGAIN, NO_LINK],
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
