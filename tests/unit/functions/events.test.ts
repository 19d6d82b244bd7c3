/** What is read of an event: first from its text, then from Stripe's fields. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type {
  EventMode,
  PlanItem,
} from "../../../supabase/functions/_shared/billing/settings/deployment.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import * as formats from "../../../supabase/functions/_shared/billing/events/format.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  type ParsedEvent,
  parseEvent,
} from "../../../supabase/functions/_shared/billing/events/parse_event.ts";
import {
  ABSENT,
  CREATED,
  DELETED,
  FAILED,
  INVOICE,
  items,
  NO_ID,
  NO_TIME,
  NOW,
  stripeEvent as event,
  SUBSCRIPTION,
  UPDATED,
} from "./fixtures.ts";

const BOTH = [CREATED, UPDATED];
const PAUSED = "customer.subscription.paused";
const RESUMED = "customer.subscription.resumed";
const TRIAL = "customer.subscription.trial_will_end";
const HANDLED = [...BOTH, PAUSED, RESUMED, DELETED, FAILED];
const PERIOD_END = "data.object.current_period_end";
const ITEM = "data.object.items.data.0";

const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
const below = (subscription: unknown) => ({
  parent: { subscription_details: { subscription } },
});

const NOTIFY = new Set(["trial_ending"]);
function parse(event: object, mode: EventMode = "any"): ParsedEvent {
  const options = {
    nowSeconds: NOW,
    toleranceSeconds: 60,
    mode,
    notify: NOTIFY,
  };
  return parseEvent(JSON.stringify(event), { format: stripe, ...options });
}

function check<Given>(
  read: (given: Given) => unknown,
  whole: object,
  cases: readonly (readonly [given: Given, differs: object])[],
): void {
  for (const [given, differs] of cases) {
    const text = String(JSON.stringify(given)).slice(0, 80);
    assertEquals<unknown>(read(given), { ...whole, ...differs }, text);
  }
}

function fault(body: object) {
  const error = assertThrows(() => parse(body), DeliveryError);
  assertEquals(error.code, "event_invalid", JSON.stringify(body).slice(0, 200));
  assert(!error.message.includes("LEAKED"), error.message);
  return error.message;
}

/** Each wording; the catalogue has each field, and bodies that are no event. */
const WORDS: [path: string, value: unknown, says: string, type?: string][] = [
  ["type", " \t\n", ": must be a string that is not blank"],
  ["id", "LEAKED\n", ": must not contain control characters or "],
  ["id", "x".repeat(256), ": must not be longer than 255 char", FAILED],
  ["data", [], ".object is missing"],
  ["data.object.status", null, ": must be a string", UPDATED],
  ["data.object.items.data", [], "[0].price.id is missing"],
  [`${ITEM}.price.id`, "", ": must not be blank", UPDATED],
  [PERIOD_END, NOW * 1000, ": must be in whole Unix seconds, between 2000 and"],
  [PERIOD_END, null, ": must be a number", UPDATED],
  ["created", 1, ": must be in whole Unix seconds", FAILED],
  ["created", NOW + 61, ": must not be more than 60 s ahead of the receiver"],
  ["data.object.subscription", {}, ".id: must be a string", FAILED],
  ["data.object", null, ": must be an object", FAILED],
  ["data.object.id", undefined, " is missing", TRIAL],
  ["data.object.id", null, " is missing", TRIAL],
];
Deno.test("parseEvent() names a field that is missing or malformed, and what is wrong, but not its value", () => {
  for (const [path, value, says, type = CREATED] of WORDS) {
    const message = fault(event(type, { [path]: value }));
    const start = path.replace(".0", "[0]") + says;
    assert(message.startsWith(start), `${message} and not ${start}`);
  }
  // Where the newest versions of Stripe's API have them.
  const inItem = `${ITEM}.current_period_end`;
  for (const type of BOTH) {
    const message = fault(event(type, { [PERIOD_END]: null, [inItem]: 1.5 }));
    assert(message.startsWith(inItem.replace(".0", "[0]")), message);
  }
  const elsewhere = fault(event(CREATED, {
    "data.object.metadata": {},
    "data.object.subscription": { metadata: { accountId: 1.5 } },
  }));
  assert(elsewhere.startsWith("data.object.metadata.accountId: must be"));
  const blank = "\n".repeat(256);
  const worse = {
    id: blank,
    "data.object.id": blank,
    created: 1.5,
    [`${ITEM}.price.id`]: blank,
    [PERIOD_END]: 1.5,
    "data.object.metadata.accountId": blank,
  };
  assertEquals(fault(event(CREATED, worse)).split("; ").length, 5);
});

const ONE_OFF = [{}, { parent: { type: "x" } }, below(null)];
const IGNORED: [reason: string, types: string[], object, EventMode?][] = [
  ["not_handled", ["invoice.paid", "ping"], { data: [null], created: "x" }],
  ["not_handled", ["constructor", "__proto__", `${FAILED} `], {}],
  ["not_handled", [FAILED.toUpperCase(), "v10.x", "v3.x", "a.v1.x", "v1"], {}],
  ...ONE_OFF.map((object): typeof IGNORED[number] => {
    return ["no_subscription", [FAILED], { data: { object } }];
  }),
  ["thin", [`v1.${CREATED}`, "v2.core.account.updated"], {}],
  ["thin", ["some.type", `v1.${DELETED}`], { object: "v2.core.event" }],
  ["other_mode", [...HANDLED, "ping"], { livemode: false }, "live"],
  ["other_mode", [...HANDLED, "ping"], { livemode: true }, "test"],
  // An event that does not say its mode belongs to either.
  ["not_handled", ["ping"], { livemode: "false" }, "live"],
  ["not_handled", ["ping"], { livemode: true }, "live"],
  ["not_handled", ["ping"], { livemode: null }, "test"],
  ["not_handled", ["ping"], { livemode: false }, "test"],
];
Deno.test("parseEvent() says why an event has no effect, whatever else is in it", () => {
  for (const [reason, types, changes, mode] of IGNORED) {
    for (const type of types) {
      const ids = { type, id: "evt_1" };
      const parsed = parse({ ...ids, object: "event", ...changes }, mode);
      assertEquals<unknown>(parsed, { handled: false, reason, ...ids });
    }
  }
});

const ACTION = "invoice.payment_action_required";
const inTrial = (trial_end: unknown) =>
  event(TRIAL, { "data.object.trial_end": trial_end });
const TELLS: [given: object, notify: string[], told: string | undefined][] = [
  [event(FAILED), ["payment_failed"], "payment_failed"],
  [event(FAILED), ["ended"], undefined],
  [event(DELETED), ["ended"], "ended"],
  [event(UPDATED), ["recovered", "ended"], "recovered"],
  [inTrial(NOW + 1), ["trial_ending"], "trial_ending"],
  [inTrial(NOW), ["trial_ending"], undefined],
  [inTrial(null), ["trial_ending"], undefined],
  [inTrial(NOW + 1), ["ended"], "not_handled"],
  [event(ACTION), ["payment_failed"], "not_handled"],
  [
    event(ACTION, { "data.object": INVOICE }),
    ["action_required"],
    "action_required",
  ],
];
Deno.test("parseEvent() keeps what accounts are to be told, and nothing else", () => {
  for (const [given, notify, told] of TELLS) {
    const parsed = parseEvent(JSON.stringify(given), {
      format: stripe,
      nowSeconds: NOW,
      toleranceSeconds: 60,
      notify: new Set(notify),
    });
    const said = parsed.handled ? parsed.event.payment?.kind : parsed.reason;
    assertEquals(said, told, JSON.stringify(given).slice(0, 80));
  }
});

const CHECKOUT = "checkout.session.completed";
const PAID = "invoice.paid";
const OTHER = {
  kind: "other",
  report: { customer_id: "cus_1", subscription_id: null },
};
const NOBODYS = { customer_id: null, subscription_id: null };
const SESSION = { customer: { id: "cus_1" }, client_reference_id: "acc_2" };
const checkout = (changes: object) =>
  event(CHECKOUT, { "data.object": { ...SESSION, ...changes } });
const unusable = { account_id: null, isUnusable: true };
const nobody = { account_id: null, isUnusable: false };
const own = { metadata: { accountId: "acc_1" } };
const CHECKOUTS: [changes: object, differs: object][] = [
  [{}, {}],
  [own, { account_id: "acc_1" }],
  [{ metadata: { accountId: " " } }, {}],
  [{ ...own, client_reference_id: 1 }, { account_id: "acc_1" }],
  [{ customer: null }, { report: NOBODYS }],
  [{ client_reference_id: null }, nobody],
  [{ client_reference_id: "x".repeat(256) }, unusable],
  [{ client_reference_id: 7, metadata: { accountId: "" } }, {
    account_id: "7",
  }],
  [{ client_reference_id: 2 ** 53, metadata: { accountId: "" } }, unusable],
  [{ client_reference_id: "", metadata: { accountId: " " } }, nobody],
];
Deno.test("parseEvent() passes on the events of further types, with their text if a handler reads it", () => {
  const read = (
    given: object,
    types: string[],
    fault?: string,
    accountFromCheckout = true,
  ) => {
    const parsed = parseEvent(JSON.stringify(given), {
      format: stripe,
      nowSeconds: NOW,
      toleranceSeconds: 60,
      accountFromCheckout,
      handledTypes: { types: new Set(types), ...(fault && { fault }) },
    });
    if (!parsed.handled) return parsed.reason;
    const { event: { payload, ...event }, isAccountUnusable: isUnusable } =
      parsed;
    if (payload !== undefined) assertEquals(payload, JSON.stringify(given));
    return {
      ...event,
      ...(payload && { payload: true }),
      ...(isUnusable !== undefined && { isUnusable }),
    };
  };
  const paid = { type: PAID, event_id: "evt_1", occurred_at: iso(NOW) };
  const whole = { ...paid, ...OTHER, payload: true };
  const undated = event(PAID, { created: undefined });
  const bare = { id: "evt_1", type: PAID };
  check((given: object) => read(given, [PAID]), whole, [
    [event(PAID), { named_account: "acc_1" }],
    [undated, { named_account: "acc_1", occurred_at: null }],
    [bare, { occurred_at: null, report: NOBODYS }],
    // A customer of an erased account is known by its own ID.
    [event(PAID, { "data.object": { object: "customer", id: "cus_1" } }), {}],
  ]);
  for (const changes of [{ id: " " }, { created: 1 }, { created: NOW + 61 }]) {
    const bad = () => read(event(PAID, changes), [PAID]);
    assertEquals(assertThrows(bad, DeliveryError).code, "event_invalid");
  }
  // A type with an effect of its own, and one that has none for once.
  const deletion = read(event(DELETED), [DELETED]);
  const ids = { type: DELETED, event_id: "evt_1", occurred_at: iso(NOW) };
  const report = { customer_id: "cus_1" };
  assertEquals<unknown>(deletion, {
    ...ids,
    subscription_id: "sub_1",
    kind: "deletion",
    report,
    named_account: "acc_1",
    payload: true,
  });
  const oneOff = event(FAILED, { "data.object": { customer: "cus_1" } });
  assertEquals<unknown>(read(oneOff, [FAILED]), {
    ...whole,
    type: FAILED,
    subscription_id: null,
    report,
  });
  const from = { ...paid, type: CHECKOUT, ...OTHER, kind: "checkout" };
  check(
    (changes: object) => read(checkout(changes), []),
    { ...from, account_id: "acc_2", isUnusable: false },
    CHECKOUTS,
  );
  assertEquals<unknown>(read(checkout({}), [CHECKOUT]), {
    ...from,
    account_id: "acc_2",
    isUnusable: false,
    payload: true,
  });
  // For a handler alone, it says whose it is.
  assertEquals<unknown>(read(checkout({}), [CHECKOUT], undefined, false), {
    ...whole,
    type: CHECKOUT,
    named_account: "acc_2",
  });
  // A faulty list refuses what may be on it.
  for (const type of [PAID, "ping"]) {
    const bad = () => read(event(type), [PAID], "HANDLE_EVENT_TYPES: no");
    const { code, message } = assertThrows(bad, DeliveryError);
    assertEquals([code, message], [
      "deployment_fault",
      "HANDLE_EVENT_TYPES: no",
    ]);
  }
  for (const type of [...HANDLED, CHECKOUT]) {
    assert(typeof read(event(type), [], "no") === "object", type);
  }
});

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
const ITEMS = [
  {
    item_id: "si_1",
    price_id: "price_1",
    product_id: "prod_1",
    quantity: 5,
    usage_type: null,
    current_period_end: iso(END),
  },
  ...[0, 1].map(() => ({
    item_id: null,
    price_id: null,
    product_id: null,
    quantity: null,
    usage_type: null,
    current_period_end: iso(END),
  })),
];
const { id: invoice_id, customer: _, subscription: __, ...paid } = INVOICE;
const PAYMENT = {
  kind: "payment_failed",
  invoice_id,
  ...paid,
  next_payment_attempt: iso(LATER),
};

const describeEvent = (given: unknown) => formats.describeEvent(given, stripe);
const lacksAccountId = (given: unknown) =>
  formats.lacksAccountId(given, stripe);

function handled(given: unknown, planItem: "first" | "licensed" = "first") {
  return stripe.read(given, { planItem, isHandled: true });
}

function reportOf(changes: object, more = {}) {
  const object = { ...SUBSCRIPTION, ...changes };
  const given = event(CREATED, { "data.object": object, ...more });
  const { report } = handled(given);
  return Object.fromEntries(
    Object.entries(report).filter(([name]) => name in REPORT),
  );
}

function paymentOf(changes: object) {
  const object = { ...INVOICE, ...changes };
  return handled(event(FAILED, { "data.object": object }))
    .payment;
}

Deno.test("read() makes the event on the wire of each type", () => {
  const report = { customer_id: "cus_1" };
  const whole = { ...REPORT, items: ITEMS, items_complete: true };
  const recovered = { payment: { kind: "recovered" } };
  const change = { type: UPDATED, kind: "update", report: whole };
  const update = { ...change, ...recovered };
  const creation = { type: CREATED, kind: "creation", report: whole };
  const payment = { type: FAILED, kind: "payment_failed", payment: PAYMENT };
  const deletion = {
    type: DELETED,
    kind: "deletion",
    payment: { kind: "ended" },
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
  const nobodys = { "data.object.metadata": null };
  const odd = { "data.object.status": 1, "data.object.items": "rubbish" };
  const both = { "data.object.parent": below("sub_2").parent };
  const ids = { event_id: "evt_1", subscription_id: "sub_1" };
  const read = (given: unknown) => handled(given);
  check(read, { ...ids, occurred_at: iso(NOW) }, [
    [event(CREATED), { ...creation, account_id: "acc_1" }],
    [event(CREATED, nobodys), { ...creation, account_id: null }],
    ...[UPDATED, PAUSED, RESUMED].map((type) =>
      [event(type), { ...update, type, previous: null }] as const
    ),
    // It may have recovered, if its status changed or nobody knows.
    [previous({ quantity: 1 }), { ...change, previous: {} }],
    [previous({ status: "past_due" }), {
      ...update,
      previous: { provider_status: "past_due" },
    }],
    [event(TRIAL, { "data.object.trial_end": LATER }), {
      ...notice(TRIAL, "trial_ending", { trial_end: iso(LATER) }),
    }],
    [event(TRIAL), notice(TRIAL, "trial_ending", { trial_end: null })],
    [event(ACTION, { "data.object": INVOICE }), {
      ...notice(ACTION, "action_required", PAYMENT),
    }],
    // Somebody is looking at the form.
    [event(FAILED, first), { type: FAILED, kind: "payment_failed", report }],
    [event(DELETED, odd), { ...deletion, report }],
    [event(FAILED), { ...payment, report }],
    [event(FAILED, both), { ...payment, report }],
    [event(FAILED, { created: undefined }), {
      ...payment,
      report,
      occurred_at: null,
    }],
  ]);
});

const none = { current_period_end: null };
const inItem = { ...items({ current_period_end: LATER }), ...none };
const atEnd = { cancel_at_period_end: true };
const later = { cancel_at: iso(LATER) };

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
const MODES = [
  [true, false, true],
  [false, true, false],
  [undefined, true, true],
  [null, false, false],
  ["true", true, true],
  [1, 0, null],
  [0, {}, null],
];
Deno.test("read() reads the mode of the event or else of the object, and what is odd as null", () => {
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

type Update = [after: object, attributes: unknown, expected: object | null];
const UPDATES: Update[] = [
  ...[...ABSENT, "rubbish"].map((odd): Update => [{}, odd, null]),
  [{}, [], {}],
  [{}, JSON.parse('{"__proto__":{"status":"x"}}'), {}],
  [{}, { status: "past_due" }, { provider_status: "past_due" }],
  [{}, { customer: { id: "cus_2", email: "x" } }, { customer_id: "cus_2" }],
  [atEnd, { cancel_at: LATER }, later],
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
    const { previous } = handled(event(UPDATED, { data }));
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
Deno.test("read() reads all items, and the plan of the first or the first licensed one", () => {
  const itemsIn = (changes: object, previous_attributes?: object) => {
    const object = { ...SUBSCRIPTION, ...changes };
    const data = { object, previous_attributes };
    const { report, previous } = handled(event(UPDATED, { data }));
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
  const cut = { items: { data: [price("x")], has_more: true } };
  const read = (planItem: PlanItem, changes: object) =>
    handled(
      event(CREATED, {
        "data.object": { ...SUBSCRIPTION, ...none, ...changes },
      }),
      planItem,
    ).report;
  assertEquals(read("first", cut).items_complete, false);
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
  // The fault is that of the plan's item.
  const nameless = list(price("metered"), price("licensed", { id: "" }));
  assertThrows(
    () => read("licensed", nameless),
    DeliveryError,
    "data.object.items.data[1].price.id: must not be blank",
  );
  // Of items of several lengths, the earliest end is that of the subscription.
  assertEquals(read("licensed", { ...both, ...atEnd }).cancel_at, iso(END));
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
Deno.test("read() reads the earliest end of several items, and the subscription of a line", () => {
  // Old versions report the earliest themselves.
  const earliest = { current_period_end: iso(END) };
  check(reportOf, REPORT, [
    [two(LATER, END), earliest],
    [two(END, LATER), earliest],
    [{ ...two(LATER, END), ...atEnd }, { ...earliest, cancel_at: iso(END) }],
  ]);
  const path = "data.object.items.data[1].current_period_end";
  const odd = event(CREATED, {
    "data.object": { ...SUBSCRIPTION, ...two(END, END * 1000) },
  });
  assert(fault(odd).startsWith(path), fault(odd));
  for (const changes of BY_LINE) {
    const object = { ...INVOICE, ...changes };
    const one = event(FAILED, { "data.object": object });
    assertEquals(handled(one).subscription_id, "sub_2");
    assertEquals(describeEvent(one).subscription_id, "sub_2");
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
    `JaVaScRiPt:alert(1)//${PAY}`,
    "https://",
    "data:text/html,<b>",
    "http://pay.example.com",
    "//pay.example.com",
    `${PAY}@evil.example`,
    "https://:password@pay.example.com",
    [PAY],
    ` ${PAY}`,
    `${PAY}/\n`,
    `${PAY}/a b`,
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
      ...[...odd, ...RUBBISH].map((one) => [one, { [name]: null }] as const),
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

const WHOLE = {
  type: CREATED,
  kind: "creation",
  subscription_id: "sub_1",
  customer_id: "cus_1",
  account_id: "acc_1",
  occurred_at: iso(NOW),
  fallback_account: undefined,
};
const without = (names: string[]) =>
  Object.fromEntries(names.map((name) => [name, undefined]));
const NO_USABLE_ID = [...NO_ID, ...ABSENT];
const PARTS: [path: string, values: unknown[], ...lost: string[]][] = [
  ["data.object.items", NO_USABLE_ID],
  ["data.object.id", NO_USABLE_ID, "subscription_id"],
  ["data.object.customer", NO_USABLE_ID, "customer_id"],
  [
    "data.object.metadata.accountId",
    NO_USABLE_ID.filter((value) => value !== 1),
    "account_id",
  ],
  ["type", NO_USABLE_ID, "type", "kind", "subscription_id"],
  ["created", [...NO_TIME, ...ABSENT], "occurred_at"],
];
Deno.test("describeEvent() reads each part by itself", () => {
  for (const [path, values, ...lost] of PARTS) {
    const read = (value: unknown) =>
      describeEvent(event(CREATED, { [path]: value }));
    check(read, WHOLE, values.map((value) => [value, without(lost)]));
  }
  const nothing = without(Object.keys(WHOLE));
  const paid = { type: "invoice.paid", data: { object: { id: "in_1" } } };
  check<unknown>(describeEvent, nothing, [
    ...[...ABSENT, 1, [], { data: 1 }].map((value) => [value, {}] as const),
    [paid, { type: "invoice.paid" }],
    [{ data: { object: { customer: "cus_1", subscription: "sub_1" } } }, {
      customer_id: "cus_1",
      subscription_id: "sub_1",
    }],
  ]);
});

const OWNED = { metadata: { accountId: "acc_1" } };
const PLACES = {
  "data.object.metadata": OWNED.metadata,
  "data.object.subscription": OWNED,
  "data.object.subscription_details": OWNED,
  "data.object.parent": { subscription_details: OWNED },
  "data.object.lines": { data: [{}, OWNED] },
};
const of = (values: unknown[]) => values.map((accountId) => ({ accountId }));
/** Whether an account is missing; what is malformed is not missing. */
const METADATA: [lacks: boolean, values: unknown[]][] = [
  [true, [...ABSENT, {}, { accountid: "x" }, ...of([...ABSENT, "", "  "])]],
  [false, [[], "acc_1", 7, ...of([7, "a\nb", "x".repeat(256), {}, false])]],
];
Deno.test("lacksAccountId() and describeEvent() find the account at any place", () => {
  for (const [path, value] of Object.entries(PLACES)) {
    const one = event(FAILED, { [path]: value });
    const { account_id } = describeEvent(one);
    assertEquals([lacksAccountId(one), account_id], [false, "acc_1"], path);
  }
  for (const [expected, values] of METADATA) {
    for (const metadata of values) {
      const one = event(CREATED, { "data.object.metadata": metadata });
      assertEquals(lacksAccountId(one), expected, JSON.stringify(metadata));
    }
  }
  assertEquals(lacksAccountId(event(FAILED)), true);
  for (const body of [null, 1, "x", [], {}, { data: null }, { data: {} }]) {
    assertEquals(lacksAccountId(body), false, JSON.stringify(body));
  }
});
