/** What is read of each provider's events: what the receiver sends to the database. */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  type Provider,
  providerEvent,
  type ProviderEventOptions,
  PROVIDERS,
} from "../../../scripts/events/provider_events.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  describeEvent,
  lacksAccountId,
} from "../../../supabase/functions/_shared/billing/formats/format.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/formats/formats.ts";
import {
  parseEvent,
  readEventId,
} from "../../../supabase/functions/_shared/billing/parse_event.ts";

const AT = "2026-11-03T10:00:00.123456Z";
const END = "2026-12-03T10:00:00.000Z";
const LATER = "2027-01-03T10:00:00.000Z";
const NOW = Date.parse("2026-11-04") / 1000;
const NAMES = Object.keys(PROVIDERS) as Provider[];
const NOTIFY = new Set(["payment_failed", "recovered", "ended"]);

type Json = Record<string, unknown>;

/** Reads an event, as the receiver does with all notices on. */
function read(provider: Provider, event: unknown, handled: string[] = []) {
  const format = FORMATS[provider];
  return parseEvent(JSON.stringify(event), {
    format,
    ...(format.idOf && { id: "msg_1" }),
    ...{ nowSeconds: NOW, toleranceSeconds: 300, notify: NOTIFY },
    handledTypes: { types: new Set(handled) },
  });
}

function eventOf(
  provider: Provider,
  type: string,
  options: ProviderEventOptions = {},
) {
  const parsed = read(
    provider,
    providerEvent(provider, type, {
      ...{ id: "evt_1", occurredAt: AT, periodEnd: END, account: "acc_1" },
      ...options,
    }),
  );
  if (!parsed.handled) throw new Error(`${type} is not handled`);
  return parsed.event;
}

/** A field of an event, by its path. */
function withField(event: Json, path: string, value: unknown): Json {
  const [name, ...rest] = path.split(".");
  const inner = event[name!] as Json;
  const next = rest.length === 0
    ? value
    : withField(inner ?? {}, rest.join("."), value);
  return Array.isArray(event)
    ? Object.assign([...event], { [name!]: next }) as unknown as Json
    : { ...event, [name!]: next };
}

const NONE = {
  ...{ cancel_at: null, trial_end: null, paused: null, paused_until: null },
  ...{ livemode: null, items_complete: true },
};
const item = (more: object) => [{
  ...{ item_id: null, price_id: null, product_id: null, usage_type: null },
  ...{ quantity: 3, current_period_end: END },
  ...more,
}];

/** Of an update with three seats: its type, status, and what differs from {@linkcode NONE}. */
const REPORTS: Record<
  Provider,
  [type: string, active: string, report: object]
> = {
  paddle: ["subscription.updated", "active", {
    customer_id: "ctm_1",
    plan_id: "pri_1",
    items: item({
      price_id: "pri_1",
      product_id: "pro_01gsz4t5hdjse780zja8vvr7jg",
    }),
  }],
  polar: ["subscription.updated", "active", {
    ...{ customer_id: "ctm_1", plan_id: "pri_1" },
    items: item({ product_id: "pri_1" }),
  }],
  dodo: ["subscription.renewed", "active", {
    ...{ customer_id: "ctm_1", plan_id: "pri_1" },
    items: item({ product_id: "pri_1" }),
  }],
  "lemon-squeezy": ["subscription_updated", "active", {
    ...{ customer_id: "ls_ctm_1", plan_id: "pri_1", livemode: false },
    items: item({ price_id: "pri_1", product_id: "501" }),
  }],
};

Deno.test("each format reads the report of an update, and what it plans", () => {
  for (const provider of NAMES) {
    const [type, active, report] = REPORTS[provider];
    const said = { customer: "ctm_1", plan: "pri_1", quantity: 3 };
    const whole = {
      ...{ ...NONE, provider_status: active, quantity: 3 },
      ...{ current_period_end: END, ...report },
    };
    const { report: read, previous } = eventOf(provider, type, said);
    assertEquals<unknown>([read, previous], [whole, null], provider);
    const planned = eventOf(provider, type, { ...said, cancelAt: END });
    assertEquals<unknown>(
      planned.report,
      { ...whole, cancel_at: END },
      provider,
    );
    const trial = eventOf(provider, type, { ...said, trialEnd: LATER });
    const ends = provider === "dodo" ? "2026-11-17T10:00:00.123Z" : LATER;
    assertEquals<unknown>(
      trial.report,
      { ...whole, trial_end: ends },
      provider,
    );
  }
});

/** Of each provider: types with a kind, and with a status what it is here. */
const KINDS: Record<
  Provider,
  [kind: string, status: string | null, ...types: string[]][]
> = {
  paddle: [
    ["creation", "active", "subscription.created", "subscription.imported"],
    [
      "update",
      "active",
      "subscription.updated",
      "subscription.activated",
      "subscription.resumed",
    ],
    ["update", "trialing", "subscription.trialing"],
    ["update", "past_due", "subscription.past_due"],
    ["update", "paused", "subscription.paused"],
    ["deletion", null, "subscription.canceled"],
    ["payment_failed", null, "transaction.payment_failed"],
  ],
  polar: [
    ["creation", "active", "subscription.created"],
    ["update", "active", "subscription.updated"],
    ["deletion", null, "subscription.revoked"],
    ["payment_failed", null, "subscription.past_due"],
  ],
  dodo: [
    ["opening_update", "active", "subscription.active", "subscription.updated"],
    ["opening_update", "canceled", "subscription.failed"],
    [
      "update",
      "active",
      "subscription.renewed",
      "subscription.plan_changed",
      "subscription.unpaused",
    ],
    ["update", "past_due", "subscription.on_hold"],
    ["update", "paused", "subscription.paused"],
    [
      "deletion",
      null,
      "subscription.cancelled",
      "subscription.expired",
    ],
    ["payment_failed", null, "payment.failed"],
  ],
  "lemon-squeezy": [
    ["creation", "active", "subscription_created"],
    ["update", "active", "subscription_updated"],
    ["deletion", null, "subscription_expired"],
    ["payment_failed", null, "subscription_payment_failed"],
  ],
};
const PAID = { amount_due: 3000, currency: "usd" };
const INVOICES: Partial<Record<Provider, string>> = {
  paddle: "txn_01hv8wptq8987qeep44cyrewp9",
  dodo: "pay_evt_1",
};

Deno.test("each format knows its types, and whose they are; further ones are for handlers", () => {
  for (const provider of NAMES) {
    const types: string[] = [];
    for (const [kind, status, ...ofKind] of KINDS[provider]) {
      types.push(...ofKind);
      for (const type of ofKind) {
        const event = eventOf(provider, type, {
          subscription: "77",
          customer: "9",
        });
        const prefix = provider === "lemon-squeezy" ? "ls_" : "";
        const id = provider === "paddle" ? "evt_1" : "msg_1";
        const invoice = INVOICES[provider];
        const payment = kind === "payment_failed"
          ? { kind, ...(invoice && { invoice_id: invoice }), ...PAID }
          : kind === "deletion"
          ? { kind: "ended" }
          : kind !== "creation" && status === "active"
          ? { kind: "recovered" }
          : undefined;
        assertEquals<unknown>(
          {
            ...{
              kind: event.kind,
              status: event.report.provider_status ?? null,
            },
            ...{ id: event.event_id, type: event.type, at: event.occurred_at },
            ...{ subscription: event.subscription_id, payment: event.payment },
            ...{
              account: event.account_id,
              customer: event.report.customer_id,
            },
          },
          {
            ...{ kind, status, id, type, at: AT, payment },
            ...{ subscription: `${prefix}77`, customer: `${prefix}9` },
            account: /creation|opening/.test(kind) ? "acc_1" : undefined,
          },
          `${provider} ${type}`,
        );
      }
    }
    assertEquals(Object.keys(FORMATS[provider].kinds).sort(), types.sort());
    const [further] = PROVIDERS[provider].types.slice(-1);
    const bought = providerEvent(provider, further!, {
      customer: "9",
      occurredAt: AT,
    });
    assertEquals(read(provider, bought).handled, false, further);
    const parsed = read(provider, bought, [further!]);
    assertEquals(parsed.handled && parsed.event.kind, "other");
    assertEquals(
      parsed.handled && parsed.event.payload,
      JSON.stringify(bought),
    );
  }
});

/** A status of the provider that has no type of its own. */
const STATUSES: [Provider, string, given: string, expected: string][] = [
  ["dodo", "subscription.updated", "pending", "incomplete"],
  ["dodo", "subscription.updated", "expired", "incomplete_expired"],
  ["dodo", "subscription.updated", "failed", "canceled"],
  ["dodo", "subscription.updated", "new_one", "new_one"],
  ["polar", "subscription.updated", "unpaid", "unpaid"],
  ["lemon-squeezy", "subscription_updated", "on_trial", "trialing"],
  // It is paid until `ends_at`.
  ["lemon-squeezy", "subscription_updated", "cancelled", "active"],
  ["lemon-squeezy", "subscription_updated", "unpaid", "unpaid"],
];
Deno.test("statuses are in the words that the access rule knows", () => {
  for (const [provider, type, status, expected] of STATUSES) {
    const { report } = eventOf(provider, type, { status });
    assertEquals(report.provider_status, expected, `${provider} ${status}`);
  }
});

/** A bad value where one is required, and the path that the error names. */
const REQUIRED: Record<
  Provider,
  [type: string, path: string, named: string][]
> = {
  paddle: [
    ["subscription.updated", "event_id", "event_id"],
    ["subscription.updated", "data.id", "data.id"],
    ["subscription.updated", "data.status", "data.status"],
    ["subscription.updated", "data.items", "data.items"],
    ["subscription.updated", "data.items.0.price.id", "data.items[0].price.id"],
    ["subscription.canceled", "data.id", "data.id"],
  ],
  polar: [
    ["subscription.updated", "data.id", "data.id"],
    ["subscription.updated", "data.status", "data.status"],
    ["subscription.updated", "data.product_id", "data.product_id"],
  ],
  dodo: [
    ["subscription.updated", "data.subscription_id", "data.subscription_id"],
    ["subscription.updated", "data.status", "data.status"],
    ["subscription.updated", "data.product_id", "data.product_id"],
  ],
  "lemon-squeezy": [
    ["subscription_updated", "data.id", "data.id"],
    [
      "subscription_updated",
      "data.attributes.status",
      "data.attributes.status",
    ],
    [
      "subscription_updated",
      "data.attributes.variant_id",
      "data.attributes.variant_id",
    ],
  ],
};
/** Where the time and the account are, and a field that may be anything. */
const PLACES: Record<
  Provider,
  [creation: string, time: string, account: string, any: string]
> = {
  paddle: [
    "subscription.created",
    "occurred_at",
    "data.custom_data.accountId",
    "data.current_billing_period",
  ],
  polar: [
    "subscription.created",
    "timestamp",
    "data.customer.external_id",
    "data.seats",
  ],
  dodo: [
    "subscription.active",
    "timestamp",
    "data.metadata.accountId",
    "data.addons",
  ],
  "lemon-squeezy": [
    "subscription_created",
    "data.attributes.updated_at",
    "meta.custom_data.account_id",
    "data.attributes.pause",
  ],
};
const ODD_TIMES = [
  1_762_164_000,
  "yesterday",
  "2026-02-30T00:00:00Z",
  "1999-01-01T00:00:00Z",
  "2026-11-03T10:00:00",
];
const AHEAD = "2026-11-05T00:00:00Z";

function fails(provider: Provider, event: unknown, says: RegExp) {
  const error = assertThrows(() => read(provider, event), DeliveryError);
  assertEquals(error.code, "event_invalid");
  assertMatch(error.message, says);
}

Deno.test("a required field that is missing or malformed is named, with its path; any other one is null", () => {
  for (const provider of NAMES) {
    for (const [type, path, named] of REQUIRED[provider]) {
      const event = providerEvent(provider, type, { occurredAt: AT });
      const start = RegExp.escape(named);
      fails(
        provider,
        withField(event, path, undefined),
        RegExp(`^${start} is missing`),
      );
      for (const odd of [{}, [], " ", "a\nb", "x".repeat(256), true]) {
        fails(provider, withField(event, path, odd), RegExp(`^${start}`));
      }
    }
    const [type, time, account, any] = PLACES[provider];
    const event = providerEvent(provider, type, {
      occurredAt: AT,
      account: "acc_1",
    });
    const { type: name } = FORMATS[provider].names;
    fails(
      provider,
      withField(event, name, undefined),
      RegExp(`^${name} is missing`),
    );
    for (const odd of ODD_TIMES) {
      fails(
        provider,
        withField(event, time, odd),
        RegExp(`^${RegExp.escape(time)}: must be a date`),
      );
    }
    fails(
      provider,
      withField(event, time, AHEAD),
      RegExp(`^${RegExp.escape(time)}: must not be more`),
    );
    fails(
      provider,
      withField(event, account, 7),
      RegExp(`${RegExp.escape(account)}.*: must be`),
    );
    for (const none of [undefined, null]) {
      const { event: undated } = read(
        provider,
        withField(event, time, none),
      ) as { event: Json };
      assertEquals(undated["occurred_at"], null);
      const parsed = read(provider, withField(event, account, none));
      assertEquals(parsed.handled && parsed.event.account_id, null);
      assertEquals(
        lacksAccountId(withField(event, account, none), FORMATS[provider]),
        true,
      );
    }
    for (const odd of [null, 7, "x", [], { mode: 1, ends_at: 1 }]) {
      assertEquals(read(provider, withField(event, any, odd)).handled, true);
    }
    const { type: of, kind, account_id, occurred_at } = describeEvent(
      event,
      FORMATS[provider],
    );
    assertEquals<unknown>([of, account_id, occurred_at], [type, "acc_1", AT]);
    assertEquals(kind, FORMATS[provider].kinds[type]);
    for (const rubbish of [null, 1, "x", [], {}, { data: 1, meta: 1 }]) {
      assertEquals(describeEvent(rubbish, FORMATS[provider]).type, undefined);
    }
  }
});

async function idOf(
  provider: Provider,
  event: unknown,
  handled: string[] = [],
) {
  return await readEventId(new TextEncoder().encode(JSON.stringify(event)), {
    ...{ format: FORMATS[provider], deliveryId: "msg_1" },
    handledTypes: { types: new Set(handled) },
  });
}

Deno.test("an id is of the body, of the header, or of what is kept of the event", async () => {
  assertEquals(await idOf("paddle", {}), undefined);
  assertEquals([await idOf("polar", 1), await idOf("dodo", {})], [
    "msg_1",
    "msg_1",
  ]);
  const type = "subscription_updated";
  const event = providerEvent("lemon-squeezy", type, {
    id: "1",
    occurredAt: AT,
  });
  const id = (await idOf("lemon-squeezy", event))!;
  assertMatch(id, /^ls_[0-9a-f]{64}$/);
  const { meta, data } = event as { meta: Json; data: { attributes: Json } };
  const changed = (changes: object) => ({
    ...{
      meta,
      data: { ...data, attributes: { ...data.attributes, ...changes } },
    },
  });
  // Links are signed anew for each attempt; a card says nothing that is kept.
  const same = changed({
    urls: { update: "https://x?signature=2" },
    card_brand: "visa",
  });
  assertEquals(await idOf("lemon-squeezy", same), id);
  assertEquals(
    await idOf("lemon-squeezy", {
      ...event,
      meta: { ...meta, webhook_id: "2" },
    }),
    id,
  );
  const ids = new Set([id]);
  for (
    const other of [
      changed({ status: "past_due" }),
      changed({ updated_at: END }),
      { ...event, meta: { ...meta, event_name: "subscription_created" } },
      { ...event, data: { ...data, id: "78" } },
    ]
  ) ids.add((await idOf("lemon-squeezy", other))!);
  assertEquals(ids.size, 5);
  // A handler reads all of it.
  const [whole, card] = [event, same].map((one) =>
    idOf("lemon-squeezy", one, [type])
  );
  assertEquals(await whole === await card, false);
  assertEquals(await idOf("lemon-squeezy", { meta }), undefined);
});
