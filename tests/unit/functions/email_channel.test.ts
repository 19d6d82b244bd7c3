import { assert, assertEquals } from "@std/assert";
import {
  accountEmail,
  emailChannel,
} from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { serveHere } from "../../support/machine.ts";
import {
  codeOf,
  fakeDatabase,
  NOTIFICATION,
  refusal,
  STATED,
} from "./fixtures.ts";

const FROM = "Billing <billing@example.com>";
const found = (): Promise<string | null> => Promise.resolve("a@example.com");

async function mail(answer?: () => Response, addressOf = found) {
  const sent: [path: string, headers: Headers, body: unknown][] = [];
  const server = serveHere(async (request) => {
    const { pathname } = new URL(request.url);
    sent.push([pathname, request.headers, await request.json()]);
    return answer!();
  });
  const { url } = server;
  const end = server[Symbol.asyncDispose];
  if (answer === undefined) await end();

  const clock = () => Date.parse("2026-11-21T06:24:00Z");
  const settings = { apiKey: "re_LEAKED", from: FROM, perSecond: 2 };
  const channel = emailChannel({ ...settings, url, addressOf, fetch, clock });
  const attempt = await channel.send({ ...NOTIFICATION, ...STATED });
  if (answer !== undefined) await end();
  return { sent, attempt };
}

const answering = (status: number, ...bodies: string[]) =>
  bodies.map((body) => () => new Response(body, { status }));
const refusing = (statusCode: number) => () => {
  const headers = {
    "retry-after": "Sat, 21 Nov 2026 06:34:00 GMT",
    location: "/",
  };
  const error = { statusCode, name: "a_name", message: "Says why" };
  return Response.json(error, { status: statusCode, headers });
};
/** Resend answers 429 for its quotas as well; or it is no answer of Resend. */
const RESULTS: [result: string, ...answers: (() => Response)[]][] = [
  ["failed", refusing(401), ...answering(502, "null", '"no"', "[]", "{}")],
  ["failed", ...answering(502, "17", "<html>", "")],
  ["failed", refusing(307), ...answering(200, "null", "<html>", "")],
  ["limited", refusing(429), ...answering(429, "<html>")],
];
Deno.test("emailChannel() mails the account once, and reads any answer", async () => {
  const accepted = () => Response.json({ id: "mail_1" });
  const { sent: [first, ...more], attempt } = await mail(accepted);
  assertEquals<unknown>([attempt, more], [{ result: "sent" }, []]);
  const [path, headers, body] = first!;
  assertEquals(path, "/emails");
  assertEquals(headers.get("authorization"), "Bearer re_LEAKED");
  assertEquals(headers.get("idempotency-key"), NOTIFICATION.id);
  const rendered = renderEmail(emailTexts({ ...NOTIFICATION, ...STATED }));
  assertEquals(body, { from: FROM, to: "a@example.com", ...rendered });

  for (const [expected, ...answers] of RESULTS) {
    for (const answer of answers) {
      const { sent, attempt } = await mail(answer);
      const { result, error = "" } = attempt;
      assertEquals([result, sent.length], [expected, 1]);
      assert(error !== "" && !/undefined|LEAKED/.test(error), error);
      if (error.includes("a_name")) {
        assertEquals<unknown>(attempt, {
          result,
          error: "Resend: a_name: Says why",
          retryAfterSeconds: 600,
        });
      }
    }
  }

  const { attempt: { result, error } } = await mail(undefined);
  assertEquals([result, `${error}`.includes("LEAKED")], ["failed", false]);
  const unknown = await mail(accepted, () => Promise.resolve(null));
  assertEquals(unknown.attempt.result, "undeliverable");
  assertEquals(unknown.sent, []);
  const failed = await mail(accepted, () => Promise.reject(new Error("why")));
  const why = { result: "failed", error: "why" };
  assertEquals<unknown>(failed, { sent: [], attempt: why });
});

Deno.test("accountEmail() returns the database's address, or throws", async () => {
  const emailOf = (answer: Response) =>
    accountEmail(fakeDatabase(() => answer).database, "acc_1");
  assertEquals(await emailOf(Response.json("a@example.com")), "a@example.com");
  assertEquals(await codeOf(emailOf(refusal("PGRST202"))), "deployment_fault");
});

const NO_LINK = "Please check your payment method.";

/** What is stated, the amount, and the paragraphs after the first; messages.txt has more. */
const TEXTS: [stated: object, amount: string, ...paragraphs: string[]][] = [
  [{ attempt_count: 0 }, "", "No further attempt is scheduled.", NO_LINK],
  [
    { next_payment_attempt: "2026-05-04T00:30:00+02:00" },
    "",
    "We will try again on 3 May 2026 (UTC).",
    NO_LINK,
  ],
  [{ amount_due: 1900 }, "", NO_LINK],
  [{ currency: "eur" }, "", NO_LINK],
  [{ amount_due: 0, currency: "eur" }, " of €0.00", NO_LINK],
];
Deno.test("emailTexts() says what is stated, in any time zone", () => {
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

  const confirm = {
    ...NOTIFICATION,
    ...STATED,
    kind: "action_required" as const,
  };
  assertEquals(emailTexts(confirm).link?.label, "Confirm the payment");
  assertEquals(emailTexts({ ...confirm, kind: "ended" }).link, undefined);
  const unlinked = emailTexts({ ...confirm, hosted_invoice_url: null });
  assertEquals(
    unlinked.paragraphs.at(-1),
    "Please open your billing page to confirm it.",
  );
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

const AMOUNTS = `
1900 eur €19.00 | 1999 usd $19.99 | 5 usd $0.05 | 0 eur €0.00
123456789 gbp £1,234,567.89 | 1050 cad CA$10.50 | 1050 chf CHF 10.50
1900 zzz ZZZ 19.00
9007199254740991 eur €90,071,992,547,409.91
9007199254740991 kwd KWD 9,007,199,254,740.991
500 jpy ¥500 | 50000 krw ₩50,000 | 500 vnd ₫500
500 xaf FCFA 500 | 500 xof F CFA 500 | 500 xpf CFPF 500`;
/** Hundredths to Stripe, although payouts or Intl have none; or no decimals. */
const HUNDREDTHS = `
1045 huf HUF 10.45 | 80045 twd NT$800.45 | 12300 rsd RSD 123.00
12300 lbp LBP 123.00 | 500 isk ISK 5 | 500 ugx UGX 5`;
const NO_DECIMALS = "BIF CLP DJF GNF KMF MGA PYG RWF VUV";
const THREE_DECIMALS = "KWD BHD JOD OMR TND";
Deno.test("formatAmount() has as many decimals as Stripe", () => {
  for (const row of (AMOUNTS + HUNDREDTHS).trim().split(/\n| \| /)) {
    const [amount = "", currency = "", ...text] = row.split(" ");
    assertEquals(formatAmount(Number(amount), currency), text.join(" "), row);
  }
  for (const code of NO_DECIMALS.split(" ")) {
    assertEquals(formatAmount(500, code.toLowerCase()), `${code} 500`);
  }
  for (const code of THREE_DECIMALS.split(" ")) {
    assertEquals(formatAmount(5120, code.toLowerCase()), `${code} 5.120`);
  }
});
