import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  describeEvent,
  handledEvent,
} from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";

const OCCURRED = 1_793_624_405;
const PERIOD_END = 1_796_212_800;
const LATER = 1_800_000_000;
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const DELETED = "customer.subscription.deleted";
const PAYMENT_FAILED = "invoice.payment_failed";

/** An item as Stripe sends it, with fields that nothing reads. */
const item = (changes: object = {}) => ({
  id: "si_1",
  price: { id: "price_1", product: "prod_1" },
  current_period_start: 1_793_620_800,
  quantity: 5,
  ...changes,
});
const items = (...data: unknown[]) => ({ items: { object: "list", data } });

const SUBSCRIPTION = {
  id: "sub_1",
  object: "subscription",
  status: "active",
  customer: "cus_1",
  metadata: { accountId: "acc_1", other: "x" },
  ...items(item(), { price: null }, "rubbish"),
  current_period_end: PERIOD_END,
  cancel_at: null,
  cancel_at_period_end: false,
  trial_end: null,
  pause_collection: null,
  unread: { any: ["thing"] },
};

const REPORT = {
  plan_id: "price_1",
  current_period_end: iso(PERIOD_END),
  provider_status: "active",
  customer_id: "cus_1",
  quantity: 5,
  cancel_at: null,
  trial_end: null,
  paused: null,
  livemode: false,
};

function event(type: string, data: unknown, changes: object = {}): unknown {
  return {
    id: "evt_1",
    object: "event",
    type,
    created: OCCURRED,
    livemode: false,
    api_version: "2026-10-28.endive",
    data,
    ...changes,
  };
}

function reportOf(changes: object) {
  const object = { ...SUBSCRIPTION, ...changes };
  return handledEvent.parse(event(CREATED, { object })).report;
}

function previousOf(after: object, previous_attributes: unknown) {
  const object = { ...SUBSCRIPTION, ...after };
  return handledEvent.parse(event(UPDATED, { object, previous_attributes }))
    .previous;
}

function paymentOf(changes: object) {
  const object = { ...INVOICE, ...changes };
  return handledEvent.parse(event(PAYMENT_FAILED, { object })).payment;
}

Deno.test("handledEvent makes the event of the wire of each type", () => {
  const common = {
    event_id: "evt_1",
    occurred_at: iso(OCCURRED),
    subscription_id: "sub_1",
  };
  const object = SUBSCRIPTION;
  const ended = { id: "sub_1", customer: "cus_1", status: 1, items: "rubbish" };
  const cases: [type: string, data: object, expected: object][] = [
    [CREATED, { object }, {
      kind: "creation",
      account_id: "acc_1",
      report: REPORT,
    }],
    [UPDATED, { object }, { kind: "update", report: REPORT, previous: null }],
    [UPDATED, { object, previous_attributes: { status: "trialing" } }, {
      kind: "update",
      report: REPORT,
      previous: { provider_status: "trialing" },
    }],
    [DELETED, { object: ended }, {
      kind: "deletion",
      report: { customer_id: "cus_1" },
    }],
    [PAYMENT_FAILED, { object: INVOICE }, {
      kind: "payment_failed",
      report: { customer_id: "cus_1" },
      payment: PAYMENT,
    }],
  ];
  for (const [type, data, expected] of cases) {
    assertEquals<unknown>(
      handledEvent.parse(event(type, data)),
      { ...common, type, ...expected },
    );
  }
});

Deno.test("handledEvent reads each field of the report", () => {
  const cases: [changes: object, expected: object][] = [
    [{}, {}],
    [items(item({ price: { id: "price_2" } })), { plan_id: "price_2" }],
    [{ current_period_end: LATER }, { current_period_end: iso(LATER) }],
    [{ status: "incomplete" }, { provider_status: "incomplete" }],
    [{ customer: { id: "cus_2", email: "x" } }, { customer_id: "cus_2" }],
    [items(item({ quantity: 0 })), { quantity: 0 }],
    [items(item({ quantity: 2_147_483_647 })), { quantity: 2_147_483_647 }],
    [{ cancel_at: LATER }, { cancel_at: iso(LATER) }],
    [{ cancel_at_period_end: true }, { cancel_at: iso(PERIOD_END) }],
    [{ cancel_at: LATER, cancel_at_period_end: true }, {
      cancel_at: iso(LATER),
    }],
    [
      {
        cancel_at_period_end: true,
        current_period_end: undefined,
        ...items(item({ current_period_end: LATER })),
      },
      { current_period_end: iso(LATER), cancel_at: iso(LATER) },
    ],
    [{ trial_end: LATER }, { trial_end: iso(LATER) }],
    [{ pause_collection: { behavior: "void", resumes_at: null } }, {
      paused: "void",
    }],
  ];
  for (const [changes, expected] of cases) {
    assertEquals<unknown>(
      reportOf(changes),
      { ...REPORT, ...expected },
      JSON.stringify(changes),
    );
  }
});

const NO_TEXT = [1, true, "", " ", "a\0b", "a\nb", "\ud800", "x".repeat(256)];
const NO_TIME = ["1796212800", 0, -1, 1.5, PERIOD_END * 1000, 1e400, true, {}];
const NO_NUMBER = [undefined, null, -1, 1.5, 2 ** 31, 1e400, "5", true, {}];

/** Values that no provider should send; they all read as null. */
const ODD: [field: keyof typeof REPORT, changes: object[]][] = [
  ["provider_status", [...NO_TEXT, [], {}].map((status) => ({ status }))],
  ["customer_id", [
    ...[undefined, null, ...NO_TEXT, {}].flatMap((customer) => [
      { customer },
      { customer: { id: customer } },
    ]),
  ]],
  ["quantity", NO_NUMBER.map((quantity) => items(item({ quantity })))],
  ["cancel_at", [
    ...NO_TIME.map((cancel_at) => ({ cancel_at })),
    ...["true", 1, {}, null].map((value) => ({ cancel_at_period_end: value })),
  ]],
  ["trial_end", NO_TIME.map((trial_end) => ({ trial_end }))],
  ["paused", [
    ...[...NO_TEXT, {}].map((behavior) => ({ pause_collection: { behavior } })),
    ...[undefined, true, "void", [], ["void"], { resumes_at: 1 }].map(
      (pause_collection) => ({ pause_collection }),
    ),
  ]],
];
for (const [field, cases] of ODD) {
  Deno.test(`handledEvent reads an odd ${field} as null, and the others as they are`, () => {
    for (const changes of cases) {
      assertEquals<unknown>(
        reportOf(changes),
        { ...REPORT, [field]: null },
        JSON.stringify(changes),
      );
    }
  });
}

Deno.test("handledEvent takes the mode of the event, or else of the object, or else none", () => {
  const modeOf = (livemode: unknown, ofObject: unknown) => {
    const object = { ...SUBSCRIPTION, livemode: ofObject };
    return handledEvent.parse(event(CREATED, { object }, { livemode })).report
      .livemode;
  };
  for (const own of [true, false]) {
    assertEquals(modeOf(own, !own), own);
    for (const odd of [undefined, null, "true", 1, 0, {}]) {
      assertEquals([modeOf(odd, own), modeOf(odd, odd)], [own, null]);
    }
  }
});

Deno.test("handledEvent reads what an update replaced: what differed before it", () => {
  const paused = { behavior: "void", resumes_at: LATER };
  const inItem = (current_period_end: number) => ({
    current_period_end: undefined,
    ...items(item({ current_period_end })),
  });
  const cases: [after: object, attributes: unknown, expected: unknown][] = [
    [{}, undefined, null],
    [{}, null, null],
    [{}, "rubbish", null],
    [{}, [], {}],
    [{}, {}, {}],
    [{}, { latest_invoice: "in_1", default_payment_method: null }, {}],
    [{ status: "past_due" }, { status: "active" }, {
      provider_status: "active",
    }],
    [{}, { customer: "cus_0" }, { customer_id: "cus_0" }],
    // Null counts, in either direction.
    [{ trial_end: LATER }, { trial_end: null }, { trial_end: null }],
    [{}, { trial_end: LATER }, { trial_end: iso(LATER) }],
    [{ pause_collection: paused }, { pause_collection: null }, {
      paused: null,
    }],
    [{}, { pause_collection: paused }, { paused: "void" }],
    // Only the members that changed are in it.
    [{ pause_collection: paused }, {
      pause_collection: { behavior: "keep_as_draft" },
    }, { paused: "keep_as_draft" }],
    [{ pause_collection: paused }, { pause_collection: { resumes_at: 1 } }, {}],
    // The old items are whole.
    [{}, items(item({ quantity: 3 })), { quantity: 3 }],
    [{}, items(item({ price: { id: "price_0" } })), { plan_id: "price_0" }],
    [{}, items(item()), {}],
    [items(item({ quantity: null })), items(item()), { quantity: 5 }],
    [{}, items(item({ quantity: undefined })), { quantity: null }],
    // The period, in either shape, and the end that follows from it.
    [{}, { current_period_end: LATER }, { current_period_end: iso(LATER) }],
    [inItem(PERIOD_END), items(item({ current_period_end: LATER })), {
      current_period_end: iso(LATER),
    }],
    [
      { ...inItem(PERIOD_END), cancel_at_period_end: true },
      items(item({ current_period_end: LATER })),
      { current_period_end: iso(LATER), cancel_at: iso(LATER) },
    ],
    [{ cancel_at_period_end: true }, { cancel_at_period_end: false }, {
      cancel_at: null,
    }],
    [{}, { cancel_at_period_end: true }, { cancel_at: iso(PERIOD_END) }],
    [
      { cancel_at_period_end: true },
      { current_period_end: LATER },
      { current_period_end: iso(LATER), cancel_at: iso(LATER) },
    ],
    [
      { cancel_at_period_end: true, cancel_at: PERIOD_END },
      { cancel_at_period_end: false, cancel_at: null },
      { cancel_at: null },
    ],
    [
      { cancel_at_period_end: true, cancel_at: PERIOD_END },
      { cancel_at: null },
      {},
    ],
    // Rubbish is no error.
    [{}, { status: 1 }, { provider_status: null }],
    [{}, { items: null }, { plan_id: null, quantity: null }],
  ];
  for (const [after, attributes, expected] of cases) {
    assertEquals<unknown>(
      previousOf(after, attributes),
      expected,
      JSON.stringify([after, attributes]),
    );
  }
});

Deno.test("handledEvent reads odd values that an update replaced, and throws nothing", () => {
  const names = [...Object.keys(SUBSCRIPTION), "__proto__"];
  const values = names.map((name) => [name, fc.jsonValue()]);
  fc.assert(fc.property(
    fc.record(Object.fromEntries(values), { requiredKeys: [] }),
    (attributes) => {
      const own = JSON.parse(JSON.stringify(attributes));
      const previous = Object.entries(previousOf({}, own) ?? {});
      for (const [name, value] of previous) {
        assertEquals(value === REPORT[name as keyof typeof REPORT], false);
      }
    },
  ));
});

const INVOICE = {
  id: "in_1",
  customer: "cus_1",
  subscription: "sub_1",
  hosted_invoice_url: "https://pay.example.com/in_1?a=1&b=2",
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: LATER,
};
const PAYMENT = {
  invoice_id: "in_1",
  hosted_invoice_url: "https://pay.example.com/in_1?a=1&b=2",
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: iso(LATER),
};

Deno.test("handledEvent reads what an invoice states", () => {
  const cases: [field: keyof typeof PAYMENT, value: unknown, kept?: unknown][] =
    [
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
      // The last attempt: none follows.
      ["next_payment_attempt", null],
    ];
  for (const [field, value, kept = value] of cases) {
    assertEquals<unknown>(
      paymentOf({ [field]: value }),
      { ...PAYMENT, [field]: kept },
    );
  }
});

const RUBBISH: readonly unknown[] = [
  undefined,
  null,
  "",
  {},
  [],
  true,
  "x".repeat(2 ** 20),
  { toString: null },
];

/** Values that are odd: they are null, and nothing else is. */
const ODD_DETAILS: Readonly<Record<string, readonly unknown[]>> = {
  id: [...RUBBISH, 1, "a\nb"],
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
};
for (const [field, values] of Object.entries(ODD_DETAILS)) {
  Deno.test(`handledEvent reads an odd ${field} of an invoice as null, and never fails it`, () => {
    for (const value of values) {
      assertEquals<unknown>(
        paymentOf({ [field]: value }),
        { ...PAYMENT, [field === "id" ? "invoice_id" : field]: null },
        JSON.stringify(value)?.slice(0, 80),
      );
    }
  });
}

Deno.test("handledEvent claims nothing of an odd next attempt, or of one that is not stated", () => {
  for (
    const next_payment_attempt of [
      ...RUBBISH.filter((value) => value !== null),
      `${LATER}`,
      "2026-05-04T00:00:00Z",
      LATER * 1000,
      LATER + 0.5,
      0,
      -1,
      1e400,
      2 ** 53,
    ]
  ) {
    assertEquals<unknown>(
      paymentOf({ next_payment_attempt }),
      { ...PAYMENT, attempt_count: null, next_payment_attempt: null },
    );
  }
});

for (const apiVersion of API_VERSIONS) {
  Deno.test(`handledEvent reads all details of an invoice of ${apiVersion}`, () => {
    const { payment } = handledEvent.parse(
      invoiceEvent({ apiVersion, created: OCCURRED }),
    );
    for (const [name, value] of Object.entries(payment ?? {})) {
      assertEquals(typeof value, typeof PAYMENT[name as keyof typeof PAYMENT]);
    }
  });

  Deno.test(`describeEvent() describes the events of ${apiVersion}`, () => {
    const options = { apiVersion, created: OCCURRED };
    const events = [
      subscriptionEvent(CREATED, options),
      subscriptionEvent(UPDATED, options),
      subscriptionEvent(DELETED, options),
      invoiceEvent(options),
    ];
    for (const one of events) {
      const parsed = handledEvent.parse(one);
      const { account_id, ...described } = describeEvent(one);
      assertEquals<unknown>(described, {
        type: parsed.type,
        kind: parsed.kind,
        subscription_id: parsed.subscription_id,
        customer_id: parsed.report.customer_id,
        occurred_at: parsed.occurred_at,
      });
      assertEquals(typeof account_id, "string");
    }
  });
}

Deno.test("describeEvent() reads each part by itself", () => {
  const whole = {
    type: CREATED,
    kind: "creation",
    subscription_id: "sub_1",
    customer_id: "cus_1",
    account_id: "acc_1",
    occurred_at: iso(OCCURRED),
  };
  const nothing = {
    type: undefined,
    kind: undefined,
    subscription_id: undefined,
    customer_id: undefined,
    account_id: undefined,
    occurred_at: undefined,
  };
  const broken = (object: unknown, changes: object = {}) =>
    describeEvent(event(CREATED, { object }, changes));
  const without = { ...SUBSCRIPTION, items: undefined, current_period_end: 1 };
  assertEquals<unknown>(broken(without), whole);
  for (const odd of [...NO_TEXT, {}, null, undefined]) {
    assertEquals<unknown>(
      broken({ ...without, id: odd }),
      { ...whole, subscription_id: undefined },
    );
    assertEquals<unknown>(
      broken({ ...without, customer: odd }),
      { ...whole, customer_id: undefined },
    );
    assertEquals<unknown>(
      broken({ ...without, metadata: { accountId: odd } }),
      { ...whole, account_id: undefined },
    );
    assertEquals<unknown>(
      broken(without, { type: odd }),
      {
        ...whole,
        type: undefined,
        kind: undefined,
        subscription_id: undefined,
      },
    );
  }
  for (const created of [...NO_TIME, null, undefined]) {
    assertEquals<unknown>(
      broken(without, { created }),
      { ...whole, occurred_at: undefined },
    );
  }
  for (const odd of [undefined, null, 1, "x", [], {}, { data: 1 }]) {
    assertEquals<unknown>(describeEvent(odd), nothing);
  }
  const other = event("invoice.paid", { object: { id: "in_1" } });
  assertEquals<unknown>(describeEvent(other), {
    ...nothing,
    type: "invoice.paid",
    occurred_at: iso(OCCURRED),
  });
});
