import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  type Provider,
  providerEvent,
} from "../../../scripts/events/provider_events.ts";
import type { EventSettings } from "../../../supabase/functions/_shared/billing/events/event_settings.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  parseEvent,
  readEventId,
  type ReadingSettings,
} from "../../../supabase/functions/_shared/billing/events/parse_event.ts";
import { edited } from "../../support/edited.ts";
import {
  ACTION,
  below,
  check,
  CHECKOUT,
  CREATED,
  DELETED,
  FAILED,
  INVOICE,
  iso,
  NOW,
  PAUSED,
  RESUMED,
  stripeEvent as event,
  TRIAL,
  UPDATED,
} from "./fixtures.ts";

const BOTH = [CREATED, UPDATED];
const HANDLED = [...BOTH, PAUSED, RESUMED, DELETED, FAILED];
const PERIOD_END = "data.object.current_period_end";
const ITEM = "data.object.items.data.0";
const OPTIONS = { format: stripe, nowSeconds: NOW, toleranceSeconds: 60 };

function parse(event: object, mode: ReadingSettings["mode"] = "any") {
  const notify = new Set(["trial_ending"]);
  return parseEvent(JSON.stringify(event), { ...OPTIONS, mode, notify });
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
Deno.test("parseEvent() names a bad field and its fault, not its value", () => {
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
const IGNORED: [string, string[], object, ReadingSettings["mode"]?][] = [
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
Deno.test("parseEvent() says why an event has no effect", () => {
  for (const [reason, types, changes, mode] of IGNORED) {
    for (const type of types) {
      const ids = { type, id: "evt_1" };
      const parsed = parse({ ...ids, object: "event", ...changes }, mode);
      assertEquals<unknown>(parsed, { isIgnored: true, reason, ...ids });
    }
  }
});

const inTrial = (trial_end: unknown) =>
  event(TRIAL, { "data.object.trial_end": trial_end });
const TELLS: [given: object, notify: string[], told: string | undefined][] = [
  [event(FAILED), ["payment_failed"], "payment_failed"],
  [event(FAILED), ["ended"], undefined],
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
Deno.test("parseEvent() limits notifications to one per invoice, if that is set", () => {
  for (const oncePerInvoice of [true, false, undefined]) {
    const parsed = parseEvent(JSON.stringify(event(FAILED)), {
      ...OPTIONS,
      notify: new Set(["payment_failed"]),
      ...(oncePerInvoice !== undefined && { oncePerInvoice }),
    });
    const payment = parsed.isIgnored ? undefined : parsed.event.payment;
    assertEquals(payment?.once_per_invoice, oncePerInvoice || undefined);
  }
});

Deno.test("parseEvent() keeps what accounts are to be told, and nothing else", () => {
  for (const [given, notify, told] of TELLS) {
    const parsed = parseEvent(JSON.stringify(given), {
      ...OPTIONS,
      notify: new Set(notify),
    });
    const found = parsed.isIgnored ? parsed.reason : parsed.event.payment?.kind;
    assertEquals(found, told, JSON.stringify(given).slice(0, 80));
  }
});

const PAID = "invoice.paid";
const OTHER = {
  kind: "other",
  report: { customer_id: "cus_1", subscription_id: null },
};
const NOBODYS = { customer_id: null, subscription_id: null };
const SESSION = { customer: { id: "cus_1" }, client_reference_id: "acc_2" };
const checkout = (changes: object) =>
  event(CHECKOUT, { "data.object": { ...SESSION, ...changes } });
const unusable = { account_id: null, isAccountUnusable: true };
const nobody = { account_id: null };
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
Deno.test("parseEvent() passes on further types, with the text for a handler", () => {
  const read = (
    given: object,
    types: string[],
    { fault, ...options }: Partial<EventSettings> & { fault?: string } = {},
  ) => {
    const parsed = parseEvent(JSON.stringify(given), {
      ...OPTIONS,
      accountFromCheckout: true,
      handlerTypes: { types: new Set(types), ...(fault && { fault }) },
      ...options,
    });
    if (parsed.isIgnored) return parsed.reason;
    const { event: { payload, ...event }, isAccountUnusable } = parsed;
    if (payload !== undefined) assertEquals(payload, JSON.stringify(given));
    return {
      ...event,
      ...(payload && { payload: true }),
      ...(isAccountUnusable !== undefined && { isAccountUnusable }),
    };
  };

  const paid = { type: PAID, event_id: "evt_1", occurred_at: iso(NOW) };
  const whole = { ...paid, ...OTHER, payload: true };
  check((given: object) => read(given, [PAID]), whole, [
    [event(PAID), { named_account: "acc_1" }],
    [event(PAID, { created: undefined }), {
      named_account: "acc_1",
      occurred_at: null,
    }],
    [{ id: "evt_1", type: PAID }, { occurred_at: null, report: NOBODYS }],
    // A customer of an erased account is known by its own ID.
    [event(PAID, { "data.object": { object: "customer", id: "cus_1" } }), {}],
  ]);
  for (const changes of [{ id: " " }, { created: 1 }, { created: NOW + 61 }]) {
    const bad = () => read(event(PAID, changes), [PAID]);
    assertEquals(assertThrows(bad, DeliveryError).code, "event_invalid");
  }

  // A type with an effect of its own, and one that has none for once.
  const report = { customer_id: "cus_1" };
  assertEquals<unknown>(read(event(DELETED), [DELETED]), {
    ...paid,
    type: DELETED,
    kind: "deletion",
    subscription_id: "sub_1",
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

  const bought = {
    ...paid,
    type: CHECKOUT,
    ...OTHER,
    kind: "checkout",
    account_id: "acc_2",
    isAccountUnusable: false,
  };
  check((changes: object) => read(checkout(changes), []), bought, CHECKOUTS);
  const handled = read(checkout({}), [CHECKOUT]);
  assertEquals<unknown>(handled, { ...bought, payload: true });
  // For a handler alone, it says whose it is.
  assertEquals<unknown>(
    read(checkout({}), [CHECKOUT], { accountFromCheckout: false }),
    {
      ...whole,
      type: CHECKOUT,
      named_account: "acc_2",
    },
  );

  // A faulty list refuses what may be on it.
  const fault = "HANDLE_EVENT_TYPES: no";
  for (const type of [PAID, "ping"]) {
    const bad = () => read(event(type), [PAID], { fault });
    const { code, message } = assertThrows(bad, DeliveryError);
    assertEquals([code, message], ["deployment_fault", fault]);
  }
  for (const type of [...HANDLED, CHECKOUT]) {
    assert(typeof read(event(type), [], { fault }) === "object", type);
  }
});

function idOf(provider: Provider, event: unknown, types: string[] = []) {
  return readEventId(new TextEncoder().encode(JSON.stringify(event)), {
    format: FORMATS[provider],
    deliveryId: "msg_1",
    handlerTypes: { types: new Set(types) },
  });
}

Deno.test("readEventId() reads the body, the header, or what is kept", async () => {
  const occurredAt = "2026-11-03T10:00:00Z";
  assertEquals(await idOf("paddle", {}), undefined);
  assertEquals(await idOf("polar", 1), "msg_1");
  assertEquals(await idOf("dodo", {}), "msg_1");

  const type = "subscription_updated";
  const event = providerEvent("lemon-squeezy", type, { occurredAt });
  const read = (changes: Record<string, unknown>, types: string[] = []) =>
    idOf("lemon-squeezy", edited(event, changes), types);
  const id = (await read({}))!;
  assertMatch(id, /^ls_[0-9a-f]{64}$/);
  assertEquals(await idOf("lemon-squeezy", { meta: {} }), undefined);

  const card = { "data.attributes.card_brand": "other" };
  // Links are signed anew for each attempt; a card says nothing that is kept.
  for (const same of [card, { "data.attributes.urls": {} }, { "meta.x": 2 }]) {
    assertEquals(await read(same), id);
  }
  const others = await Promise.all([
    read({ "data.attributes.status": "past_due" }),
    read({ "data.id": "78" }),
    read({ "data.attributes.updated_at": "2026-12-03" }),
    read({ "meta.event_name": "subscription_created" }),
  ]);
  assertEquals(new Set([id, ...others]).size, 5);
  // A handler reads all of it.
  assert(await read({}, [type]) !== await read(card, [type]));
});
