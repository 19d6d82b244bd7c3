import { assertEquals } from "@std/assert";
import { handledEvent } from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import { paymentDetails } from "../../../supabase/functions/_shared/billing/payment_details.ts";
import { edited } from "../../support/edited.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";

const NEXT = 1_777_852_800;
const INVOICE = {
  hosted_invoice_url: "https://pay.example.com/in_1?a=1&b=2",
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: NEXT,
};
const DETAILS = {
  ...INVOICE,
  next_payment_attempt: "2026-05-04T00:00:00.000Z",
};

Deno.test("paymentDetails() returns what an invoice states", () => {
  assertEquals(paymentDetails(INVOICE), DETAILS);
});

Deno.test("paymentDetails() knows the last attempt from one that is not stated", () => {
  const last = paymentDetails({ ...INVOICE, next_payment_attempt: null });
  assertEquals([last.attempt_count, last.next_payment_attempt], [2, undefined]);
  const { next_payment_attempt: _, ...unstated } = INVOICE;
  assertEquals(paymentDetails(unstated).attempt_count, undefined);
});

/** Values that are good, as they are kept. */
const GOOD: readonly [keyof typeof INVOICE, unknown, unknown?][] = [
  ["hosted_invoice_url", "HTTPS://PAY.example.com"],
  ["hosted_invoice_url", "https://pay.example.com/<b>\"'&amp;"],
  ["hosted_invoice_url", "https://pay.example.com/@user:pass"],
  ["hosted_invoice_url", `https://pay.example.com/${"a".repeat(2_024)}`],
  ["amount_due", 0],
  ["amount_due", Number.MAX_SAFE_INTEGER],
  ["currency", "USD", "usd"],
  ["currency", "Jpy", "jpy"],
  ["attempt_count", 0],
  ["attempt_count", 2_147_483_647],
];

for (const [field, value, kept = value] of GOOD) {
  Deno.test(`paymentDetails() keeps ${field} ${short(value)}`, () => {
    const details = paymentDetails({ ...INVOICE, [field]: value });
    assertEquals<unknown>(details, { ...DETAILS, [field]: kept });
  });
}

const RUBBISH: readonly unknown[] = [
  undefined,
  null,
  "",
  {},
  [],
  true,
  "x".repeat(2 ** 20),
  {
    toString: null,
  },
];

/** Values that are odd: they are left out, and nothing else is. */
const ODD: Readonly<Record<keyof typeof INVOICE, readonly unknown[]>> = {
  hosted_invoice_url: [
    ...RUBBISH,
    17,
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)//https://pay.example.com",
    "data:text/html,<script>alert(1)</script>",
    "http://pay.example.com/in_1",
    "ftp://pay.example.com",
    "//pay.example.com",
    "/in_1",
    "pay.example.com",
    "https://",
    "https://pay.example.com@evil.example",
    "https://user:password@pay.example.com",
    "https://:password@pay.example.com",
    " https://pay.example.com",
    "https://pay.example.com/\n",
    "java\nscript:alert(1)",
    "https://pay.example.com/a b",
    "https://pay.example.com/\u0000",
    "https://pay.example.com/\u007f",
    "https://pay.example.com/\u2028",
    "https://pay.example.com/\u202egpj.exe",
    "https://pay.example.com/\ud83d",
    `https://pay.example.com/${"a".repeat(2_025)}`,
    `https://pay.example.com/${"a".repeat(2 ** 20)}`,
    ["https://pay.example.com"],
  ],
  amount_due: [...RUBBISH, -1, 0.5, 1e400, -1e400, NaN, 2 ** 53, 1e21, "1900"],
  currency: [
    ...RUBBISH,
    17,
    "eu",
    "euro",
    "eur ",
    "e1r",
    "€€€",
    "eür",
    "ſek",
    "<b>",
    "eur\n",
    "\neur",
  ],
  attempt_count: [...RUBBISH, -1, 1.5, 1e400, 2 ** 31, "2", "two"],
  // Tested below, because it has an effect on another field.
  next_payment_attempt: [],
};

for (const [field, values] of Object.entries(ODD)) {
  for (const value of values) {
    Deno.test(`paymentDetails() leaves out ${field} ${short(value)}`, () => {
      const details = paymentDetails({ ...INVOICE, [field]: value });
      assertEquals(details, { ...DETAILS, [field]: undefined });
    });
  }
}

for (
  const value of [
    ...RUBBISH.filter((value) => value !== null),
    `${NEXT}`,
    "2026-05-04T00:00:00Z",
    NEXT * 1000,
    NEXT + 0.5,
    0,
    -1,
    1e400,
    2 ** 53,
  ]
) {
  Deno.test(`paymentDetails() claims nothing of a next attempt ${short(value)}`, () => {
    const details = paymentDetails({ ...INVOICE, next_payment_attempt: value });
    assertEquals(details, {
      ...DETAILS,
      attempt_count: undefined,
      next_payment_attempt: undefined,
    });
  });
}

for (const apiVersion of API_VERSIONS) {
  Deno.test(`handledEvent reads the details of an invoice of ${apiVersion}`, () => {
    const event = invoiceEvent({ apiVersion, created: NEXT - 86_400 });
    const object = event.data.object as unknown as typeof INVOICE;
    const parsed = handledEvent.parse(event);
    assertEquals<unknown>({ ...parsed, ...stateOf(object) }, parsed);
  });
}

Deno.test("handledEvent never fails an invoice for its details", () => {
  for (const [field, values] of Object.entries(ODD)) {
    for (const value of values) {
      const event = edited(invoiceEvent(), { [`data.object.${field}`]: value });
      const { success, data } = handledEvent.safeParse(event);
      assertEquals([success, (data as Record<string, unknown>)?.[field]], [
        true,
        undefined,
      ]);
    }
  }
});

function stateOf({ next_payment_attempt, ...rest }: typeof INVOICE) {
  const { hosted_invoice_url, amount_due, currency, attempt_count } = rest;
  return {
    hosted_invoice_url,
    amount_due,
    currency,
    attempt_count,
    next_payment_attempt: new Date(next_payment_attempt * 1000).toISOString(),
  };
}

function short(value: unknown): string {
  const text = typeof value === "number"
    ? `${value}`
    : JSON.stringify(value) ?? `${value}`;
  return text.length > 60 ? `${text.slice(0, 50)}... (${text.length})` : text;
}
