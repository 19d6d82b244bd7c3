import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type Provider,
  providerEvent,
  type ProviderEventOptions,
  PROVIDERS,
} from "../../../scripts/events/provider_events.ts";
import { databaseError } from "../../../supabase/functions/_shared/billing/database/database_errors.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  describeEvent,
  kindOf,
  lacksAccountId,
  withPlaces,
} from "../../../supabase/functions/_shared/billing/events/format.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import { parseEvent } from "../../../supabase/functions/_shared/billing/events/parse_event.ts";
import { edited } from "../../support/edited.ts";

const AT = "2026-11-03T10:00:00.123456Z";
const END = "2026-12-03T10:00:00.000Z";
const LATER = "2027-01-03T10:00:00.000Z";
const NOW = Date.parse("2026-11-04") / 1000;
const NAMES = Object.keys(PROVIDERS) as Provider[];

type Json = Record<string, unknown>;

/** Reads an event, as the receiver does with all notices on. */
function read(provider: Provider, event: unknown, handlerTypes: string[] = []) {
  const format = FORMATS[provider];
  return parseEvent(JSON.stringify(event), {
    format,
    ...(format.idOf && { id: "msg_1" }),
    nowSeconds: NOW,
    toleranceSeconds: 300,
    notify: new Set(["payment_failed", "recovered", "ended"]),
    handlerTypes: { types: new Set(handlerTypes) },
  });
}

function eventOf(
  provider: Provider,
  type: string,
  options: ProviderEventOptions = {},
) {
  const event = providerEvent(provider, type, {
    id: "evt_1",
    occurredAt: AT,
    periodEnd: END,
    account: "acc_1",
    ...options,
  });
  const parsed = read(provider, event);
  if (parsed.isIgnored) throw new Error(`${type} is not handled`);
  return parsed.event;
}

const withField = (event: object, path: string, value: unknown) =>
  edited(event, { [path]: value });

const NONE = {
  cancel_at: null,
  trial_end: null,
  paused: null,
  paused_until: null,
  livemode: null,
  items_complete: true,
};
const item = (more: object) => [{
  item_id: null,
  price_id: null,
  product_id: null,
  usage_type: null,
  quantity: 3,
  current_period_end: END,
  ...more,
}];

/** Of an update with three seats: its type, and what differs from {@linkcode NONE}. */
const REPORTS: Record<Provider, [type: string, report: object]> = {
  paddle: ["subscription.updated", {
    items: item({
      price_id: "pri_1",
      product_id: "pro_01gsz4t5hdjse780zja8vvr7jg",
    }),
  }],
  polar: ["subscription.updated", { items: item({ product_id: "pri_1" }) }],
  dodo: ["subscription.renewed", { items: item({ product_id: "pri_1" }) }],
  "lemon-squeezy": ["subscription_updated", {
    customer_id: "ls_ctm_1",
    livemode: false,
    items: item({ price_id: "pri_1", product_id: "501" }),
  }],
};

Deno.test("each format reads the report of an update, and what it plans", () => {
  for (const provider of NAMES) {
    const [type, report] = REPORTS[provider];
    const said = { customer: "ctm_1", plan: "pri_1", quantity: 3 };
    const whole = {
      ...NONE,
      provider_status: "active",
      quantity: 3,
      customer_id: "ctm_1",
      plan_id: "pri_1",
      current_period_end: END,
      ...report,
    };
    for (
      const [options, differs] of [
        [{}, {}],
        [{ cancelAt: END }, { cancel_at: END }],
        [{ trialEnd: LATER }, { trial_end: LATER }],
      ]
    ) {
      const event = eventOf(provider, type, { ...said, ...options });
      assertEquals<unknown>(event.report, { ...whole, ...differs }, provider);
      assertEquals(event.previous, null);
    }
  }
});

/** Of each provider: a kind, for some a status, and its types. */
const KINDS: Record<Provider, string> = {
  paddle: `
    creation/active subscription.created subscription.imported
    opening_update/active subscription.updated subscription.activated subscription.resumed
    opening_update/trialing subscription.trialing
    opening_update/past_due subscription.past_due
    opening_update/paused subscription.paused
    deletion/canceled subscription.canceled
    payment_failed/ transaction.payment_failed`,
  polar: `
    creation/active subscription.created
    opening_update/active subscription.updated
    deletion/canceled subscription.revoked
    payment_failed/ subscription.past_due`,
  dodo: `
    opening_update/active subscription.active subscription.updated
    opening_update/active subscription.renewed subscription.plan_changed subscription.unpaused
    opening_update/past_due subscription.past_due subscription.on_hold
    opening_update/paused subscription.paused
    deletion/canceled subscription.cancelled subscription.failed
    deletion/incomplete_expired subscription.expired
    payment_failed/ payment.failed`,
  "lemon-squeezy": `
    creation/active subscription_created
    opening_update/active subscription_updated
    deletion/canceled subscription_expired
    payment_failed/ subscription_payment_failed`,
};
const PAID = { amount_due: 3000, currency: "usd" };
const PAYMENTS: Record<Provider, object> = {
  paddle: { ...PAID, invoice_id: "txn_01hv8wptq8987qeep44cyrewp9" },
  // Its amount is not what is due.
  polar: {},
  dodo: { ...PAID, invoice_id: "pay_evt_1" },
  "lemon-squeezy": PAID,
};

function paymentOf(provider: Provider, kind: string, status?: string) {
  if (kind === "payment_failed") return { kind, ...PAYMENTS[provider] };
  if (kind === "deletion") return { kind: "ended" };
  if (kind === "opening_update" && status === "active") {
    return { kind: "recovered" };
  }
  return undefined;
}

Deno.test("each format knows its types; further ones are for handlers", () => {
  for (const provider of NAMES) {
    const known: string[] = [];
    const prefix = provider === "lemon-squeezy" ? "ls_" : "";
    const id = provider === "paddle" ? "evt_1" : "msg_1";
    for (const line of KINDS[provider].trim().split("\n")) {
      const [of = "", ...types] = line.trim().split(" ");
      const [kind = "", status] = of.split("/");
      known.push(...types);
      const payment = paymentOf(provider, kind, status);
      for (const type of types) {
        const { report, previous: _, account_id, named_account, ...event } =
          eventOf(provider, type, { subscription: "77", customer: "9" });

        assertEquals<unknown>(event, {
          kind,
          event_id: id,
          type,
          occurred_at: AT,
          subscription_id: `${prefix}77`,
          ...(payment && { payment }),
        });
        const isPayment = kind === "payment_failed";
        assertEquals(account_id, isPayment ? undefined : "acc_1", type);
        if (!isPayment) assertEquals(named_account, undefined, type);
        const { provider_status = "", customer_id } = report;
        assertEquals([provider_status, customer_id], [status, `${prefix}9`]);
      }
    }
    assertEquals(Object.keys(FORMATS[provider].kinds).sort(), known.sort());

    const further = PROVIDERS[provider].types.at(-1)!;
    const bought = providerEvent(provider, further, { occurredAt: AT });
    assertEquals(read(provider, bought).isIgnored, true, further);

    const { event } = read(provider, bought, [further]) as { event: Json };
    assertEquals(event["kind"], "other");
    assertEquals(event["payload"], JSON.stringify(bought));
  }
});

const STATUSES: [Provider, string, given: string, expected: string][] = [
  ["dodo", "subscription.updated", "pending", "incomplete"],
  ["dodo", "subscription.updated", "expired", "incomplete_expired"],
  ["dodo", "subscription.updated", "failed", "canceled"],
  ["dodo", "subscription.updated", "past_due", "past_due"],
  ["dodo", "subscription.updated", "new_one", "new_one"],
  ["polar", "subscription.updated", "unpaid", "unpaid"],
  ["lemon-squeezy", "subscription_updated", "on_trial", "trialing"],
  // It is paid until `ends_at`.
  ["lemon-squeezy", "subscription_updated", "cancelled", "active"],
  ["lemon-squeezy", "subscription_updated", "expired", "canceled"],
  ["lemon-squeezy", "subscription_updated", "unpaid", "unpaid"],
];
Deno.test("statuses are in the words that the access rule knows", () => {
  for (const [provider, type, status, expected] of STATUSES) {
    const { report } = eventOf(provider, type, { status });
    assertEquals(report.provider_status, expected, `${provider} ${status}`);
  }
});

Deno.test("Lemon Squeezy's quantity of 0 for a price by usage is none", () => {
  const type = "subscription_updated";
  const { report } = eventOf("lemon-squeezy", type, { quantity: 0 });
  const [item] = report.items!;
  assertEquals([report.quantity, item!.quantity], [null, null]);
});

/** What is not as in the other cases: an event, its changes, and what is read. */
const ODDITIES: [Provider, string, changes: object, expected: object][] = [
  // A scheduled end is no end of the pause.
  ["paddle", "subscription.paused", {
    "data.scheduled_change": { action: "resume", effective_at: LATER },
  }, { paused_until: LATER, cancel_at: null }],
  ["paddle", "subscription.paused", {
    "data.scheduled_change": { action: "cancel", effective_at: LATER },
  }, { paused_until: null, cancel_at: LATER }],
  // A planned pause.
  ["polar", "subscription.updated", { "data.resumes_at": LATER }, {
    paused_until: null,
  }],
  ["polar", "subscription.updated", {
    "data.status": "paused",
    "data.resumes_at": LATER,
  }, { provider_status: "paused", paused_until: LATER }],
  ["lemon-squeezy", "subscription_updated", {
    "data.attributes.status": "paused",
    "data.attributes.pause": { mode: "void", resumes_at: LATER },
  }, { provider_status: "paused", paused: "void", paused_until: LATER }],
  // It is given away meanwhile.
  ["lemon-squeezy", "subscription_updated", {
    "data.attributes.status": "paused",
    "data.attributes.pause": { mode: "free", resumes_at: null },
  }, { provider_status: "active", paused: "free", paused_until: null }],
  ["lemon-squeezy", "subscription_updated", {
    "data.attributes.status": "paused",
    "data.attributes.pause": null,
  }, { provider_status: "paused", paused: null }],
  // Too many days for a date, and for a year of four digits.
  ["dodo", "subscription.active", { "data.trial_period_days": 100_000_000 }, {
    trial_end: null,
  }],
  ["dodo", "subscription.active", { "data.trial_period_days": 3_000_000 }, {
    trial_end: null,
  }],
];
const TOLD: [changes: Json, told: boolean][] = [
  [{}, true],
  [{ "data.origin": "subscription_recurring" }, true],
  [{ "data.origin": "subscription_payment_method_change" }, false],
  [{ "data.details.totals.grand_total": "0" }, false],
  [{ "data.details.totals.grand_total": undefined }, true],
];
Deno.test("what a provider says in its own way", () => {
  for (const [provider, type, changes, expected] of ODDITIES) {
    const options = { occurredAt: AT, periodEnd: END };
    const event = providerEvent(provider, type, options);
    const parsed = read(provider, edited(event, changes as Json));
    assert(!parsed.isIgnored);
    const report = { ...parsed.event.report };
    assertEquals<unknown>(report, { ...report, ...expected }, provider);
  }

  const type = "transaction.payment_failed";
  const failed = providerEvent("paddle", type, { occurredAt: AT });
  for (const [changes, told] of TOLD) {
    const parsed = read("paddle", edited(failed, changes));
    assert(!parsed.isIgnored);
    const { kind, payment } = parsed.event;
    assertEquals([kind, payment !== undefined], ["payment_failed", told]);
  }
});

/** What names an account, or is as good as missing. */
const NAMED: [value: unknown, account: string | null][] = [
  ["acc_1", "acc_1"],
  [42, "42"],
  [0, "0"],
  [1e3, "1000"],
  [2 ** 53 - 1, "9007199254740991"],
  [undefined, null],
  [null, null],
  ["", null],
  [" \t", null],
];
/** What is neither: it was rounded, or is no ID. */
const BAD_ACCOUNTS = [2 ** 53, 1e300, -5, 1.5, true, [], ["acc_1"], {}];
const WHERE: Record<Provider, string> = {
  paddle: "data.custom_data.accountId",
  polar: "data.metadata.accountId or data.customer.external_id",
  dodo: "data.metadata.accountId",
  "lemon-squeezy": "meta.custom_data.account_id or meta.custom_data.accountId",
};

Deno.test("each format reads the account, and names where it looks", () => {
  for (const provider of NAMES) {
    const format = FORMATS[provider];
    const { account_ids, fallback_account: ofCustomer } = format.names as {
      account_ids: readonly string[];
      fallback_account?: string;
    };
    const accountOf = (event: object) => {
      const parsed = read(provider, event);
      assert(!parsed.isIgnored);
      const { account_id, fallback_account } = parsed.event;
      return [account_id, fallback_account];
    };
    const described = (event: object) => {
      const { account_id, fallback_account } = describeEvent(event, format);
      return [account_id, fallback_account];
    };

    for (const type of Object.keys(format.kinds)) {
      const kind = kindOf(format, type)!;
      const isPayment = kind === "payment_failed";
      const options = { occurredAt: AT, account: "acc_1" };
      const made = providerEvent(provider, type, options);

      for (const [i, place] of account_ids.entries()) {
        const before = account_ids.slice(0, i).map((path) => [path, " "]);
        const event = edited(made, Object.fromEntries(before));
        for (const [value, account] of NAMED) {
          const one = withField(event, place, value);
          assertEquals(described(one)[0] ?? null, account);
          assertEquals(lacksAccountId(one, format), account === null);
          const expected = isPayment ? undefined : account;
          assertEquals(accountOf(one), [expected, undefined], type);
        }
        for (const bad of BAD_ACCOUNTS) {
          const one = withField(event, place, bad);
          assertEquals(described(one)[0], undefined);
          assertEquals(lacksAccountId(one, format), false);
          if (/creation|update/.test(kind)) {
            fails(provider, one, place, ": must be");
          } else {
            assertEquals(accountOf(one)[0], undefined);
          }
        }
      }

      // What the provider keeps with the customer counts last.
      if (ofCustomer === undefined || isPayment) continue;
      const both = withField(made, ofCustomer, "acc_2");
      assertEquals(accountOf(both), ["acc_1", undefined]);
      assertEquals(described(both), ["acc_1", undefined]);
      assertEquals(accountOf(withField(made, ofCustomer, {}))[0], "acc_1");
      const alone = withField(both, account_ids[0]!, "");
      assertEquals(accountOf(alone), [null, "acc_2"]);
      // A failure is stored with both, so that neither is taken for the other.
      assertEquals(described(alone), ["acc_2", "acc_2"]);
      assertEquals(lacksAccountId(alone, format), false);
      // What is no usable ID is as good as missing: billing.customers may know it.
      for (const none of [...BAD_ACCOUNTS, " "]) {
        const odd = withField(alone, ofCustomer, none);
        assertEquals(accountOf(odd), [null, undefined]);
        assertEquals(lacksAccountId(odd, format), true);
      }
    }

    const unknown = databaseError("BW005", "No account is known.");
    const { code, sqlState, message } = withPlaces(unknown, format);
    assertEquals([code, sqlState], ["account_unknown", "BW005"]);
    const says = " is missing, and the customer's account is unknown.";
    assertEquals(message, WHERE[provider] + says);
    const other = databaseError("BW001", "No subscription is recorded.");
    assertEquals(withPlaces(other, format), other);
  }
});

const ANY: Record<Provider, string[]> = {
  paddle: ["data.current_billing_period", "data.items.1"],
  polar: ["data.seats"],
  dodo: ["data.addons"],
  "lemon-squeezy": ["data.attributes.pause"],
};
const ODD_TIMES = [
  1_762_164_000,
  "yesterday",
  "2026-02-30T00:00:00Z",
  "1999-01-01T00:00:00Z",
  "2026-11-03T10:00:00",
];

function fails(provider: Provider, event: unknown, path: string, says = "") {
  const error = assertThrows(() => read(provider, event), DeliveryError);
  assertEquals(error.code, "event_invalid");
  const start = path.replace(".0", "[0]");
  const { message } = error;
  assert(message.startsWith(start) && message.includes(says), message);
}

Deno.test("a bad required field is named by its path; others are null", () => {
  for (const provider of NAMES) {
    const format = FORMATS[provider];
    const { names } = format;
    const [account] = names.account_ids as [string];
    const types = Object.keys(format.kinds);
    const options = { occurredAt: AT, account: "acc_1" };
    const made = (kind: RegExp) => {
      const type = types.find((type) => kind.test(kindOf(format, type)!))!;
      return providerEvent(provider, type, options);
    };
    const event = made(/creation|opening_update/);
    const updated = made(/opening_update/);
    const ended = made(/deletion/);
    const payment = made(/payment_failed/);

    const { subscription_id, plan_id, provider_status, data, id } = names;
    const required = [subscription_id, plan_id, provider_status, data];
    if (format.idOf === undefined) required.push(id);
    for (const path of required) {
      for (const one of [updated, event]) {
        fails(provider, withField(one, path, undefined), path, " is missing");
        for (const odd of [[], " ", "a\nb", "x".repeat(256), true]) {
          fails(provider, withField(one, path, odd), path);
        }
      }
    }
    fails(
      provider,
      withField(event, names.type, undefined),
      names.type,
      " is missing",
    );

    // What was paid once belongs to no subscription.
    const isOwn = provider === "polar";
    const paid = isOwn ? subscription_id : names.payment_subscription_id;
    fails(provider, withField(payment, paid, true), paid, ": must be");
    const once = withField(payment, paid, null);
    if (isOwn) fails(provider, once, paid, " is missing");
    else assertEquals(read(provider, once).isIgnored, true);

    const time = names.occurred_at;
    for (const odd of ODD_TIMES) {
      fails(provider, withField(event, time, odd), time, ": must be a date");
    }
    fails(
      provider,
      withField(event, time, "2026-11-05T00:00:00Z"),
      time,
      ": must not be more",
    );
    for (const none of [undefined, null]) {
      const undated = read(provider, withField(event, time, none));
      assertEquals(!undated.isIgnored && undated.event.occurred_at, null);
    }

    // A deletion needs the rest only to make a record.
    for (const path of [plan_id, provider_status, account]) {
      const parsed = read(provider, withField(ended, path, 1.5));
      assert(!parsed.isIgnored);
      const { kind, account_id, report } = parsed.event;
      assertEquals([kind, account_id], ["deletion", undefined]);
      assertEquals(Object.keys(report), ["customer_id"], path);
    }
    for (const path of ANY[provider]) {
      for (const value of [null, 7, "x", [], { mode: 1, ends_at: 1 }]) {
        const odd = withField(event, path, value);
        assertEquals(read(provider, odd).isIgnored, false);
      }
    }
  }
});
