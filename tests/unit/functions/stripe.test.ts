import { assert, assertEquals, assertThrows } from "@std/assert";
import type { PlanItem } from "../../../supabase/functions/_shared/billing/events/event_settings.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { describeEvent } from "../../../supabase/functions/_shared/billing/events/format.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  ABSENT,
  ACTION,
  below,
  check,
  CREATED,
  DELETED,
  FAILED,
  INVOICE,
  iso,
  items,
  NO_ID,
  NO_TIME,
  NOW,
  PAUSED,
  RESUMED,
  stripeEvent as event,
  SUBSCRIPTION,
  TRIAL,
  UPDATED,
} from "./fixtures.ts";

const END = SUBSCRIPTION.current_period_end;
const LATER = 1_800_000_000;

const REPORT = {
  plan_id: "price_1",
  current_period_end: iso(END),
  provider_status: "active",
  customer_id: "cus_1",
  quantity: 5,
  cancel_at: null,
  trial_end: null,
  paused: null,
  paused_until: null,
  livemode: false,
};
const NO_ITEM = {
  item_id: null,
  price_id: null,
  product_id: null,
  quantity: null,
  usage_type: null,
  current_period_end: iso(END),
};
const ITEMS = [
  {
    ...NO_ITEM,
    item_id: "si_1",
    price_id: "price_1",
    product_id: "prod_1",
    quantity: 5,
  },
  NO_ITEM,
  NO_ITEM,
];
const { id: invoice_id, customer: _, subscription: __, ...paid } = INVOICE;
const PAYMENT = {
  kind: "payment_failed",
  invoice_id,
  ...paid,
  next_payment_attempt: iso(LATER),
};

function parse(given: unknown, planItem: "first" | "licensed" = "first") {
  return stripe.read(given, { planItem, takesEffect: true });
}

function reportOf(changes: object, more = {}) {
  const object = { ...SUBSCRIPTION, ...changes };
  const given = event(CREATED, { "data.object": object, ...more });
  const { report } = parse(given);
  return Object.fromEntries(
    Object.entries(report).filter(([name]) => name in REPORT),
  );
}

function paymentOf(changes: object) {
  const object = { ...INVOICE, ...changes };
  return parse(event(FAILED, { "data.object": object })).payment;
}

Deno.test("read() makes the event on the wire of each type", () => {
  const report = { customer_id: "cus_1" };
  const whole = { ...REPORT, items: ITEMS, items_complete: true };
  const creation = { type: CREATED, kind: "creation", report: whole };
  const change = { type: UPDATED, kind: "update", report: whole };
  const update = { ...change, payment: { kind: "recovered" } };
  const unnoticed = { type: FAILED, kind: "payment_failed", report };
  const payment = { ...unnoticed, payment: PAYMENT };
  const deletion = {
    type: DELETED,
    kind: "deletion",
    payment: { kind: "ended" },
    report,
  };
  const notice = (type: string, told: string, more: object) => ({
    type,
    kind: "notice",
    report,
    payment: { ...more, kind: told },
  });

  const previous = (previous_attributes: object) =>
    event(UPDATED, { "data.previous_attributes": previous_attributes });
  const first = { "data.object.billing_reason": "subscription_create" };
  const odd = { "data.object.status": 1, "data.object.items": "rubbish" };
  const both = { "data.object.parent": below("sub_2").parent };
  const ids = { event_id: "evt_1", subscription_id: "sub_1" };

  const read = (given: unknown) => parse(given);
  check(read, { ...ids, occurred_at: iso(NOW) }, [
    [event(CREATED), { ...creation, account_id: "acc_1" }],
    [event(CREATED, { "data.object.metadata": null }), {
      ...creation,
      account_id: null,
    }],
    [event(UPDATED), { ...update, previous: null }],
    [event(PAUSED), { ...update, type: PAUSED, previous: null }],
    [event(RESUMED), { ...update, type: RESUMED, previous: null }],
    // It may have recovered, if its status changed, or may have.
    [previous({ quantity: 1 }), { ...change, previous: {} }],
    [previous({ status: "past_due" }), {
      ...update,
      previous: { provider_status: "past_due" },
    }],
    [
      event(TRIAL, { "data.object.trial_end": LATER }),
      notice(TRIAL, "trial_ending", { trial_end: iso(LATER) }),
    ],
    [event(TRIAL), notice(TRIAL, "trial_ending", { trial_end: null })],
    [
      event(ACTION, { "data.object": INVOICE }),
      notice(ACTION, "action_required", PAYMENT),
    ],
    // The customer is looking at the form of the first payment.
    [event(FAILED, first), unnoticed],
    [event(DELETED, odd), deletion],
    [event(FAILED), payment],
    [event(FAILED, both), payment],
    [event(FAILED, { created: undefined }), { ...payment, occurred_at: null }],
  ]);
});

Deno.test("docs/stripe.md says what a record holds", async () => {
  const file = new URL("../../../docs/stripe.md", import.meta.url);
  const page = await Deno.readTextFile(file);
  for (const name of Object.keys(parse(event(CREATED)).report)) {
    assert(page.includes(`\n- \`${name}\`: `), name);
  }
});

const none = { current_period_end: null };
const inItem = { ...items({ current_period_end: LATER }), ...none };
const atEnd = { cancel_at_period_end: true };

/** Values that no provider should send; they all read as null. */
const ODD: Record<string, object[]> = {
  customer_id: [...ABSENT, ...NO_ID]
    .flatMap((customer) => [{ customer }, { customer: { id: customer } }]),
  quantity: [...ABSENT, -1, 1.5, 2 ** 31, 1e400, "5", true, {}]
    .map((quantity) => items({ quantity })),
  trial_end: NO_TIME.map((trial_end) => ({ trial_end })),
  provider_status: [{ status: 1 }, { status: "a\nb" }],
  cancel_at: [{ cancel_at: 1 }, { cancel_at_period_end: 1 }],
  paused: [{ behavior: 1 }, true, ["void"], {}]
    .map((pause_collection) => ({ pause_collection })),
  paused_until: [{ pause_collection: { resumes_at: 1 } }],
};
const MODES: [ofEvent: unknown, ofObject: unknown, read: boolean | null][] = [
  [true, false, true],
  [false, true, false],
  [undefined, true, true],
  [null, false, false],
  ["true", true, true],
  [1, 0, null],
  [0, {}, null],
];
Deno.test("read() reads the mode, and what is odd as null", () => {
  for (const [livemode, ofObject, expected] of MODES) {
    const report = reportOf({ livemode: ofObject }, { livemode });
    assertEquals<unknown>(report.livemode, expected);
  }
  for (const [field, cases] of Object.entries(ODD)) {
    const expected = { [field]: null };
    check(reportOf, REPORT, cases.map((changes) => [changes, expected]));
  }
});

const paused = { pause_collection: { behavior: "void", resumes_at: LATER } };
const behavior = (behavior: string) => ({ pause_collection: { behavior } });
const before = items({ current_period_end: END });
const ended = { current_period_end: iso(END) };
const MOST = 2_147_483_647;

const UPDATES: [
  after: object,
  attributes: unknown,
  previous: object | null,
][] = [
  [{}, undefined, null],
  [{}, null, null],
  [{}, "rubbish", null],
  [{}, [], {}],
  [{}, JSON.parse('{"__proto__":{"status":"x"}}'), {}],
  [{}, { status: "past_due" }, { provider_status: "past_due" }],
  [{}, { customer: { id: "cus_2", email: "x" } }, { customer_id: "cus_2" }],
  [atEnd, { cancel_at: LATER }, { cancel_at: iso(LATER) }],
  // Null counts, in either direction.
  [{ trial_end: LATER }, { trial_end: null }, { trial_end: null }],
  [paused, { pause_collection: null }, { paused: null, paused_until: null }],
  [{}, paused, { paused: "void", paused_until: iso(LATER) }],
  // Only the members that changed are in it.
  [paused, behavior("x"), { paused: "x" }],
  [paused, { pause_collection: { resumes_at: END } }, {
    paused_until: iso(END),
  }],
  [{ pause_collection: "odd" }, behavior("x"), { paused: "x" }],
  // The old items are whole.
  [{}, items({ price: { id: "price_2" } }), { plan_id: "price_2" }],
  [{}, items({ quantity: MOST }), { quantity: MOST }],
  [items({ quantity: null }), items(), { quantity: 5 }],
  [{}, items({ quantity: undefined }), { quantity: null }],
  // The period, in either shape, and the end that follows from it.
  [before, { current_period_end: LATER }, { current_period_end: iso(LATER) }],
  [{ ...inItem, ...atEnd }, before, { ...ended, cancel_at: iso(END) }],
  [atEnd, { cancel_at_period_end: false }, { cancel_at: null }],
  [{ ...atEnd, cancel_at: END }, { cancel_at: null }, {}],
  // What is odd is no error.
  [{}, { status: 1 }, { provider_status: null }],
  [{}, { items: null }, { plan_id: null, quantity: null }],
];
Deno.test("read() reads what an update replaced: what differed before it", () => {
  for (const [after, previous_attributes, expected] of UPDATES) {
    const data = { object: { ...SUBSCRIPTION, ...after }, previous_attributes };
    const { previous } = parse(event(UPDATED, { data }));

    const text = JSON.stringify([after, previous_attributes]);
    const { items: _, ...one } = previous ?? {};
    assertEquals<unknown>(previous && one, expected, text);
  }
});

const price = (usage_type: string, changes = {}) => ({
  id: `si_${usage_type}`,
  quantity: 2,
  current_period_end: LATER,
  price: {
    id: `price_${usage_type}`,
    product: { id: "prod_2" },
    recurring: { usage_type },
    ...changes,
  },
});
const list = (...data: object[]) => ({ items: { data } });
Deno.test("read() reads all items, and the plan of the first or licensed one", () => {
  const itemsIn = (changes: object, previous_attributes?: object) => {
    const object = { ...SUBSCRIPTION, ...changes };
    const data = { object, previous_attributes };
    const { report, previous } = parse(event(UPDATED, { data }));
    return previous_attributes ? previous?.items : report.items;
  };
  const metered = {
    item_id: "si_metered",
    price_id: "price_metered",
    quantity: 2,
    product_id: "prod_2",
    usage_type: "metered",
    current_period_end: iso(LATER),
  };
  assertEquals(itemsIn({}), ITEMS);
  assertEquals(itemsIn(list(price("metered"))), [metered]);

  // Only what differed, and as one value.
  assertEquals(itemsIn({}, { status: "x" }), undefined);
  assertEquals(itemsIn({}, items()), undefined);
  assertEquals(itemsIn({}, list(price("metered"))), [metered]);
  const end = iso(LATER);
  assertEquals(
    itemsIn({}, { current_period_end: LATER }),
    ITEMS.map((item) => ({ ...item, current_period_end: end })),
  );

  const read = (planItem: PlanItem, changes: object) => {
    const object = { ...SUBSCRIPTION, ...none, ...changes };
    return parse(event(CREATED, { "data.object": object }), planItem).report;
  };
  const both = list(
    { ...price("metered"), current_period_end: END },
    { ...price("licensed"), quantity: 7 },
  );
  for (
    const [planItem, changes, ...expected] of [
      ["first", both, "price_metered", 2, iso(END)],
      ["licensed", both, "price_licensed", 7, iso(LATER)],
      ["licensed", list(price("metered")), "price_metered", 2, iso(LATER)],
      [
        "licensed",
        { ...both, current_period_end: END },
        "price_licensed",
        7,
        iso(END),
      ],
    ] as const
  ) {
    const { plan_id, quantity, current_period_end } = read(planItem, changes);
    assertEquals<unknown>([plan_id, quantity, current_period_end], expected);
  }

  assertEquals(
    read("first", { items: { data: [price("x")], has_more: true } })
      .items_complete,
    false,
  );
  // Of items of several lengths, the earliest end is that of the subscription.
  assertEquals(read("licensed", { ...both, ...atEnd }).cancel_at, iso(END));
  // The fault is that of the plan's item.
  const nameless = list(price("metered"), price("licensed", { id: "" }));
  assertThrows(
    () => read("licensed", nameless),
    DeliveryError,
    "data.object.items.data[1].price.id: must not be blank",
  );
});

const two = (...ends: number[]) => ({
  ...none,
  items: {
    data: ends.map((current_period_end) => ({
      price: { id: "price_1" },
      quantity: 5,
      current_period_end,
    })),
  },
});
const line = (of: object) => ({
  subscription: null,
  lines: { data: [{}, of, "x"] },
});
const inLine = (kind: string) =>
  line({ parent: { [kind]: { subscription: "sub_2" } } });
/** Invoices whose parent, if any, names no subscription: a line does. */
const BY_LINE = [
  inLine("subscription_item_details"),
  inLine("invoice_item_details"),
  line({ type: "subscription", subscription: "sub_2" }),
  { ...line({ subscription: { id: "sub_2" } }), parent: { type: "quote" } },
];
Deno.test("read() reads the earliest end of items, and a line's subscription", () => {
  // Old versions report the earliest themselves.
  const earliest = { current_period_end: iso(END) };
  check(reportOf, REPORT, [
    [two(LATER, END), earliest],
    [two(END, LATER), earliest],
    [{ ...two(LATER, END), ...atEnd }, { ...earliest, cancel_at: iso(END) }],
  ]);

  const odd = event(CREATED, {
    "data.object": { ...SUBSCRIPTION, ...two(END, END * 1000) },
  });
  assertThrows(
    () => parse(odd),
    DeliveryError,
    "data.object.items.data[1].current_period_end",
  );

  for (const changes of BY_LINE) {
    const object = { ...INVOICE, ...changes };
    const one = event(FAILED, { "data.object": object });
    assertEquals(parse(one).subscription_id, "sub_2");
    assertEquals(describeEvent(one, stripe).subscription_id, "sub_2");
  }
});

const RUBBISH: unknown[] = [...ABSENT, "", {}, [], true, { toString: null }];
const PAY = "https://pay.example.com";

const DETAILS: [field: string, kept: unknown[], odd: unknown[]][] = [
  ["id", ["\u{1f600}".repeat(255), " \u00a0x "], NO_ID],
  ["hosted_invoice_url", [
    "HTTPS://PAY.example.com",
    `${PAY}/<b>"'&amp;`,
    `${PAY}/@user:pass`,
    `${PAY}/`.padEnd(2_048, "a"),
  ], [
    17,
    "javascript:alert(1)",
    "https://",
    "data:text/html,<b>",
    "http://pay.example.com",
    "//pay.example.com",
    `${PAY}@evil.example`,
    "https://:password@pay.example.com",
    [PAY],
    ` ${PAY}`,
    `${PAY}/\n`,
    `${PAY}/\0`,
    `${PAY}/\u2028`,
    `${PAY}/\u202egpj.exe`,
    `${PAY}/\ud83d`,
    `${PAY}/`.padEnd(2_049, "a"),
  ]],
  ["amount_due", [0, 2 ** 53 - 1], [-1, 0.5, 1e400, 2 ** 53, 1e21, "19.00"]],
  ["currency", ["usd"], [17, "eu", "euro", "e1r", "ſek", "eur\n", "\neur"]],
  ["attempt_count", [0, 2 ** 31 - 1], [-1, 1.5, 1e400, 2 ** 31, "2", "two"]],
];
Deno.test("read() reads what an invoice states, and what is odd as null", () => {
  for (const [field, kept, odd] of DETAILS) {
    const name = field === "id" ? "invoice_id" : field;
    const read = (value: unknown) => paymentOf({ [field]: value });
    check(read, PAYMENT, [
      ...kept.map((value) => [value, { [name]: value }] as const),
      ...odd.concat(RUBBISH).map((one) => [one, { [name]: null }] as const),
    ]);
  }
  assertEquals(paymentOf({ currency: "Jpy" })?.currency, "jpy");

  // Without a next attempt, it claims nothing of those so far, unless it is null.
  const read = (value: unknown) => paymentOf({ next_payment_attempt: value });
  const none = { next_payment_attempt: null };
  const nothing = { ...none, attempt_count: null };
  const odd = [...RUBBISH, ...NO_TIME];
  const lost = (value: unknown) => value === null ? none : nothing;
  check(read, PAYMENT, odd.map((value) => [value, lost(value)]));
});
