import { assert, assertEquals } from "@std/assert";
import type {
  Attempt,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { emailChannel } from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
import { emailTexts } from "../../../supabase/functions/billing-worker/channels/email_texts.ts";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";
import { NOT_STATED, STATED } from "../../support/payment.ts";
import { NOTIFICATION } from "./fixtures.ts";

/** Runs with a variable of the environment set, and puts back what was there. */
async function withVariable<T>(
  [name, value]: [name: string, value: string],
  run: () => T,
): Promise<Awaited<T>> {
  const before = Deno.env.get(name);
  Deno.env.set(name, value);
  try {
    return await run();
  } finally {
    if (before === undefined) Deno.env.delete(name);
    else Deno.env.set(name, before);
  }
}

/** One attempt through the package, against an API that answers so, or none. */
async function send(
  answer: (() => Response) | undefined,
  { addressOf = () => Promise.resolve("owner@example.com"), ...details }:
    & Partial<Notification>
    & { addressOf?: () => Promise<string | null> } = {},
) {
  const sent: [path: string, headers: Headers, mail: unknown][] = [];
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
  }, async (request) => {
    const { pathname } = new URL(request.url);
    sent.push([pathname, request.headers, await request.json()]);
    return answer!();
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  if (answer === undefined) await server.shutdown();
  // Where the package itself looks for it.
  const attempt = await withVariable(
    ["RESEND_BASE_URL", url],
    () =>
      emailChannel({
        apiKey: "re_LEAKED",
        from: "Billing <billing@example.com>",
        perSecond: 2,
        addressOf,
        clock: () => Date.parse("2026-11-21T06:24:00Z"),
      }).send({ ...NOTIFICATION, ...details }),
  );
  if (answer !== undefined) await server.shutdown();
  return { attempt, sent };
}

Deno.test("emailChannel() mails the account, the same at every attempt, once per notification", async () => {
  for (let i = 0; i < 2; i++) {
    const { attempt, sent: [request, ...more] } = await send(
      () => Response.json({ id: "mail_1" }),
      STATED,
    );
    assertEquals([attempt, more], [{ result: "sent" }, []]);
    const [path, headers, mail] = request!;
    assertEquals(
      [
        path,
        headers.get("authorization"),
        headers.get("idempotency-key"),
        mail,
      ],
      ["/emails", "Bearer re_LEAKED", NOTIFICATION.id, {
        from: "Billing <billing@example.com>",
        to: "owner@example.com",
        ...renderEmail(emailTexts({ ...NOTIFICATION, ...STATED })),
      }],
    );
  }
});

/** An error in the form that Resend documents. */
function refusal(statusCode: number, name: string, after?: string) {
  const init = {
    status: statusCode,
    headers: after ? { "retry-after": after } : {},
  };
  return () => Response.json({ statusCode, name, message: `Is ${name}` }, init);
}
const body = (status: number, text: string, after?: string) => () =>
  new Response(
    text,
    after ? { status, headers: { "retry-after": after } } : { status },
  );

/** How Resend answers, and what becomes of the attempt; undefined for anything. */
const ATTEMPTS: [
  answer: (() => Response) | undefined,
  result: Attempt["result"],
  error?: string | undefined,
  retryAfterSeconds?: number,
][] = [
  ...([
    [400, "validation_error"],
    [401, "missing_api_key"],
    [422, "invalid_from_address"],
    [500, "internal_server_error"],
  ] as const).map(([code, name]): (typeof ATTEMPTS)[number] => [
    refusal(code, name),
    "failed",
    `Resend: ${name}: Is ${name}`,
  ]),
  // For its quotas as well.
  ...["rate_limit_exceeded", "daily_quota_exceeded"].map((
    name,
  ): (typeof ATTEMPTS)[number] => [
    refusal(429, name, "90"),
    "limited",
    `Resend: ${name}: Is ${name}`,
    90,
  ]),
  [
    refusal(429, "x", "Sat, 21 Nov 2026 06:34:00 GMT"),
    "limited",
    undefined,
    600,
  ],
  [body(429, "<html>", "3"), "limited", undefined, 3],
  [body(429, ""), "limited"],
  ...["null", '"no"', "[]", "{}", "17", "<html>", ""].map((
    text,
  ): (typeof ATTEMPTS)[number] => [body(502, text), "failed"]),
  ...["null", "<html>", ""].map((text): (typeof ATTEMPTS)[number] => [
    body(200, text),
    "failed",
  ]),
  [undefined, "failed"],
];
Deno.test("emailChannel() reads the result from the answer, whatever it is", async () => {
  for (const [answer, result, error, seconds] of ATTEMPTS) {
    const { attempt } = await send(answer);
    const { error: says = "", retryAfterSeconds } = {
      error: "",
      retryAfterSeconds: undefined,
      ...attempt,
    };
    assertEquals([attempt.result, retryAfterSeconds], [result, seconds]);
    assert(says === error || error === undefined, says);
    assert(says !== "" && !/undefined|LEAKED/.test(says), says);
  }
});

Deno.test("emailChannel() sends nothing without an address", async () => {
  const unused = () => Response.json({ id: "mail_1" });
  const none = await send(unused, { addressOf: () => Promise.resolve(null) });
  assertEquals([none.attempt.result, none.sent], ["undeliverable", []]);
  const addressOf = () => Promise.reject(new Error("why"));
  const failed = await send(unused, { addressOf });
  assertEquals(failed.attempt, { result: "failed", error: "why" });
});

const NO_LINK = "Please check your payment method.";
const TRY_AGAIN = "We will try again on 3 May 2026 (UTC).";
const LAST = "No further attempt is scheduled.";
const LINK = "You can pay the invoice now:";

/** What is stated, and subject, paragraphs after the first, and footer. */
const TEXTS: [
  details: Partial<Notification>,
  amount: string,
  paragraphs: string[],
  footer?: string,
][] = [
  [STATED, " of €19.00", [TRY_AGAIN, LINK]],
  [{ invoice_id: null }, "", [NO_LINK], "Subscription: sub_1"],
  [{ ...STATED, next_payment_attempt: null }, " of €19.00", [LAST, LINK]],
  [{ attempt_count: 0 }, "", [LAST, NO_LINK]],
  [{ next_payment_attempt: "2026-05-04T00:30:00+02:00" }, "", [
    TRY_AGAIN,
    NO_LINK,
  ]],
  [{ amount_due: 1900 }, "", [NO_LINK]],
  [{ currency: "eur" }, "", [NO_LINK]],
  [{ amount_due: 1900, currency: "" }, "", [NO_LINK]],
  [{ amount_due: 0, currency: "eur" }, " of €0.00", [NO_LINK]],
  [{ account_id: "evil\r\nBcc: x", event_id: "evil\r\nBcc: x" }, "", [NO_LINK]],
];
Deno.test("emailTexts() says what is stated, in any time zone, and claims nothing else", async () => {
  for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]) {
    for (const [details, amount, paragraphs, footer] of TEXTS) {
      const notification = { ...NOTIFICATION, ...NOT_STATED, ...details };
      const url = details.hosted_invoice_url;
      assertEquals(
        await withVariable(["TZ", zone], () => emailTexts(notification)),
        {
          subject: `Your payment${amount} failed`,
          paragraphs: [
            `We could not collect the payment${amount} for your subscription.`,
            ...paragraphs,
          ],
          link: url ? { label: "Pay the invoice", url } : undefined,
          footer: footer ?? "Invoice: in_1, Subscription: sub_1",
        },
      );
    }
  }
});

Deno.test("renderEmail() puts the same words into text and HTML, escaped, and loads nothing", () => {
  const word = `</p><script>alert("1")</script><img src='x' onerror=a>&lt;`;
  const escaped =
    "&lt;/p&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&lt;img src=&#39;x&#39; onerror=a&gt;&amp;lt;";
  const url = `https://pay.example.com/?a=1&b=${word}`;
  const link = { label: `label ${word}`, url };
  const texts = {
    subject: `S ${word}`,
    paragraphs: ["One.", word],
    footer: word,
  };
  const { subject, text, html } = renderEmail({ ...texts, link });
  assertEquals(subject, texts.subject);
  assertEquals(text, ["One.", word, url, word].join("\n\n"));
  for (
    const part of [
      `<title>S ${escaped}</title>`,
      "<p>One.</p>",
      `<p>${escaped}</p>`,
      `href="https://pay.example.com/?a=1&amp;b=${escaped}"`,
      `>label ${escaped}</a>`,
      `px">${escaped}</p>`,
    ]
  ) assertEquals(html.split(part).length, 2, part);
  const loads = /<(?:img|link|script|iframe)|url\(|@import/;
  assertEquals([loads.test(html), html.match(/https?:/g)?.length], [false, 1]);
  const plain = renderEmail({ ...texts, link: undefined });
  assertEquals(plain.text, ["One.", word, word].join("\n\n"));
  assert(!plain.html.includes("<a"), plain.html);
});

/** Amounts in Stripe's smallest unit. */
const AMOUNTS: Record<string, string[]> = {
  "1900": ["€19.00", "ZZZ 19.00"],
  "1050": ["CA$10.50", "CHF 10.50", "$10.50", "£10.50"],
  "5": ["$0.05"],
  "0": ["€0.00"],
  "123456789": ["£1,234,567.89"],
  // Hundredths, although payouts or Intl have none.
  "12300": ["HUF 123.00", "NT$123.00", "RSD 123.00", "LBP 123.00"],
  // No decimals; of the last two hundredths that are not used.
  "500": [
    ..."¥ ₩ ₫ BIF_ CLP_ DJF_ GNF_ KMF_ MGA_ PYG_ RWF_ VUV_ FCFA_ F_CFA_ CFPF_"
      .split(" ").map((unit) => `${unit.replaceAll("_", " ")}500`),
    ...["ISK 5", "UGX 5"],
  ],
  "5120": ["KWD", "BHD", "JOD", "OMR", "TND"].map((unit) => `${unit} 5.120`),
  // No digit is lost.
  [Number.MAX_SAFE_INTEGER]: [
    ...["€90,071,992,547,409.91", "KWD 9,007,199,254,740.991"],
  ],
};
const CURRENCIES: Record<string, string> = {
  "€": "eur",
  "CA$": "cad",
  "$": "usd",
  "£": "gbp",
  "NT$": "twd",
  "¥": "jpy",
  "₩": "krw",
  "₫": "vnd",
  "FCFA": "xaf",
  "F CFA": "xof",
  "CFPF": "xpf",
};
Deno.test("formatAmount() has as many decimals as Stripe", () => {
  for (const [amount, texts] of Object.entries(AMOUNTS)) {
    for (const text of texts) {
      const unit = text.replace(/ ?[\d.,]+$/, "");
      const currency = CURRENCIES[unit] ?? unit.toLowerCase();
      assertEquals(formatAmount(Number(amount), currency), text);
    }
  }
});
