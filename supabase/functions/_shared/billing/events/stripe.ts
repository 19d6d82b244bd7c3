/**
 * Stripe. Fields that moved between API versions are read where the specification puts
 * them, or else where current versions do. Only the place that is used must be valid.
 */
import * as z from "zod/mini";
import { defineFormat, itemOf, maybe } from "./define_format.ts";
import type { Report } from "./event.ts";
import type { PlanItem } from "./event_settings.ts";
import {
  accountIn,
  at,
  dateTime,
  identifier,
  identifierOrNull,
  isAbsent,
  isIdentifier,
  isRecord,
  isUnixSeconds,
  listOf,
  member,
  readerOf,
  textOf,
  timeOrNull,
  unixSeconds,
} from "./fields.ts";

const OF_SUBSCRIPTION = "customer.subscription.";

/** Returns what a creation or update reports; a missing or malformed value is null. */
function columnsOf(
  event: unknown,
  subscription: unknown,
  planItem: PlanItem,
): Report {
  const { get, id, seconds } = readerOf(subscription);
  const plan = readerOf(planOf(subscription, planItem));
  return {
    plan_id: plan.id("price.id"),
    current_period_end: timeOrNull(periodEnd(subscription, planItem).value),
    provider_status: id("status"),
    customer_id: customerId(subscription),
    quantity: plan.count("quantity"),
    cancel_at: seconds("cancel_at") ??
      (get("cancel_at_period_end") === true
        ? timeOrNull(periodEnd(subscription, "first").value)
        : null),
    trial_end: seconds("trial_end"),
    // A pause without a usable behavior is null, so it blocks no account: only `void`
    // means that nothing is paid for.
    paused: id("pause_collection.behavior"),
    paused_until: seconds("pause_collection.resumes_at"),
    livemode: [member(event, "livemode"), get("livemode")]
      .find((value) => typeof value === "boolean") ?? null,
    items: itemsOf(subscription).map((item) => reportItem(item, subscription)),
    items_complete: get("items.has_more") !== true,
  };
}

function reportItem(item: unknown, subscription: unknown) {
  const { get, id, count } = readerOf(item);
  return itemOf({
    item_id: id("id"),
    price_id: id("price.id"),
    product_id: expandableId(get("price.product")),
    quantity: count("quantity"),
    usage_type: usageType(item),
    // Older API versions have it in the subscription only.
    current_period_end: timeOrNull(
      get("current_period_end") ?? member(subscription, "current_period_end"),
    ),
  });
}

function expandableId(value: unknown): string | null {
  return identifierOrNull(value) ?? identifierOrNull(member(value, "id"));
}

function usageType(item: unknown): string | null {
  return identifierOrNull(at(item, "price.recurring.usage_type"));
}

function licensedItem(subscription: unknown, planItem: PlanItem): unknown {
  return planItem === "licensed"
    ? itemsOf(subscription).find((item) => usageType(item) === planItem)
    : undefined;
}

function planOf(subscription: unknown, planItem: PlanItem): unknown {
  return licensedItem(subscription, planItem) ?? itemsOf(subscription)[0];
}

function isSubscription(event: unknown): boolean {
  return textOf(member(event, "type")).startsWith(OF_SUBSCRIPTION);
}

/** Stands for malformed metadata: the account that it may name is not a valid ID. */
const UNREADABLE = Symbol("malformed metadata");

function accountsIn(object: unknown): unknown[] {
  if (!isRecord(object)) return [UNREADABLE];
  return [
    object,
    member(object, "subscription"),
    member(object, "subscription_details"),
    at(object, "parent.subscription_details"),
    ...listOf(at(object, "lines.data")),
  ].map((holder) => {
    const metadata = member(holder, "metadata");
    const isReadable = isRecord(metadata) || isAbsent(metadata);
    return isReadable ? member(metadata, "accountId") : UNREADABLE;
  });
}

function objectOf(event: unknown): unknown {
  return at(event, "data.object");
}

type Found = Readonly<{ value: unknown; path: string }>;

/**
 * Finds the end of the current period: that of the subscription, or else the earliest of
 * its items (Stripe since 2025-03-31.basil), as older versions report it. A malformed end
 * is returned first, since it may be the earliest.
 *
 * @param planItem With `licensed`, only the end of the first licensed item counts.
 */
function periodEnd(subscription: unknown, planItem: PlanItem): Found {
  const end = {
    value: member(subscription, "current_period_end"),
    path: "current_period_end",
  };
  if (!isAbsent(end.value)) return end;

  const licensed = licensedItem(subscription, planItem);
  const ends = itemsOf(subscription)
    .map((item, index) => ({
      item,
      value: member(item, "current_period_end"),
      path: `items.data.${index}.current_period_end`,
    }))
    .filter(({ item, value }) =>
      !isAbsent(value) && (!licensed || item === licensed)
    );

  const bad = ends.find(({ value }) => !isUnixSeconds(value));
  const [earliest] = ends.sort((a, b) => Number(a.value) - Number(b.value));
  return bad ?? earliest ?? end;
}

/** The paths of the subscription in an invoice, in order of preference. */
const IN_INVOICE = [
  "subscription",
  // Stripe since 2025-03-31.basil.
  "parent.subscription_details.subscription",
];

/** The paths in a line, for an invoice whose parent is not a subscription. */
const IN_LINE = [
  "subscription",
  "parent.subscription_item_details.subscription",
  "parent.invoice_item_details.subscription",
];

/** Finds the id of an invoice's subscription, expanded or not; null if none is named. */
function invoiceSubscription(invoice: unknown): Found {
  const inLines = listOf(at(invoice, "lines.data")).flatMap((_, index) =>
    IN_LINE.map((path) => `lines.data.${index}.${path}`)
  );
  const path = [...IN_INVOICE, ...inLines]
    .find((path) => !isAbsent(at(invoice, path)));
  if (path === undefined) return { value: null, path: "subscription" };
  const value = at(invoice, path);
  return typeof value === "object"
    ? { value: member(value, "id") ?? value, path: `${path}.id` }
    : { value, path };
}

/** The object may be the customer itself. */
function customerId(object: unknown): string | null {
  const isCustomer = member(object, "object") === "customer";
  return expandableId(isCustomer ? object : member(object, "customer"));
}

function itemsOf(subscription: unknown): readonly unknown[] {
  return listOf(at(subscription, "items.data"));
}

const time = z.lazy(() => z.pipe(unixSeconds, z.transform(dateTime)));

export const stripe = defineFormat({
  kinds: {
    "customer.subscription.created": "creation",
    "customer.subscription.updated": "update",
    "customer.subscription.paused": "update",
    "customer.subscription.resumed": "update",
    "customer.subscription.deleted": "deletion",
    "invoice.payment_failed": "payment_failed",
    "customer.subscription.trial_will_end": "notice",
    "invoice.payment_action_required": "notice",
  },

  notices: {
    "customer.subscription.trial_will_end": "trial_ending",
    "invoice.payment_action_required": "action_required",
  },
  checkout: {
    type: "checkout.session.completed",
    accountOf(event) {
      const named = ["metadata.accountId", "client_reference_id"]
        .map((path) => accountIn(at(event, `data.object.${path}`)))
        .filter((value) => value !== undefined);
      const account_id = named.find(isIdentifier) ?? null;
      // Apps use `client_reference_id` for other things, too.
      const isUnusable = account_id === null && named.length > 0;
      return { account_id, isUnusable };
    },
  },

  names: {
    type: "type",
    id: "id",
    occurred_at: "created",
    subscription_id: "data.object.id",
    payment_subscription_id: "data.object.subscription",
    customer_id: "data.object.customer",
    account_ids: ["data.object.metadata.accountId"],
    data: "data.object",
    plan_id: "data.object.items.data.0.price.id",
    provider_status: "data.object.status",
  },

  namesOf(event, planItem) {
    const object = objectOf(event);
    const item = itemsOf(object).indexOf(planOf(object, planItem));

    return {
      ...(!isSubscription(event) &&
        { subscription_id: `data.object.${invoiceSubscription(object).path}` }),
      plan_id: `data.object.items.data.${Math.max(item, 0)}.price.id`,
      current_period_end: `data.object.${periodEnd(object, planItem).path}`,
    };
  },

  occurredAt: z.optional(time),
  periodEnd: time,
  firstStatus: maybe(identifier),
  isSubscription,

  partsOf(event, { type, data: object }) {
    return {
      ...(!isSubscription(event) &&
        { subscription_id: invoiceSubscription(object).value }),
      customer_id: customerId(object),
      accounts: accountsIn(object),
      livemode: member(event, "livemode"),
      // https://docs.stripe.com/connect/webhooks
      isConnected: !isAbsent(member(event, "account")),
      // https://docs.stripe.com/event-destinations
      isThin: /^v[12]\./.test(textOf(type)) ||
        member(event, "object") === "v2.core.event",
    };
  },

  report({ get }, planItem, event) {
    const subscription = objectOf(event);
    return {
      ...columnsOf(event, subscription, planItem),
      plan_id: at(planOf(subscription, planItem), "price.id"),
      provider_status: get("status"),
      current_period_end: periodEnd(subscription, planItem).value,
    };
  },

  previous(event, planItem) {
    const attributes = at(event, "data.previous_attributes");
    if (typeof attributes !== "object" || attributes === null) return null;

    const subscription = objectOf(event);
    const old = { ...Object(subscription), ...attributes };
    // The event has the old `items` as a whole, but only the changed members of this object.
    const changed = member(attributes, "pause_collection");
    if (isRecord(changed)) {
      const pause = member(subscription, "pause_collection");
      old.pause_collection = { ...Object(pause), ...changed };
    }

    const after = columnsOf(event, subscription, planItem);
    const before = columnsOf(event, old, planItem);
    return Object.fromEntries(
      Object.entries(before).filter(([name, value]) =>
        JSON.stringify(value) !== JSON.stringify(after[name as keyof Report])
      ),
    );
  },

  // A malformed field is null, because the notification matters more than its details.
  payment({ get, id, seconds, count, amount, currency }, type) {
    if (type.startsWith(OF_SUBSCRIPTION)) {
      return { trial_end: seconds("trial_end") };
    }

    // The customer sees the first payment fail in the checkout form.
    if (get("billing_reason") === "subscription_create") return undefined;

    const next = get("next_payment_attempt");
    // If the next attempt is not known, both are null: see `Payment`.
    const isKnown = next === null || isUnixSeconds(next);
    return {
      invoice_id: id("id"),
      hosted_invoice_url: httpsUrlOrNull(get("hosted_invoice_url")),
      amount_due: amount("amount_due"),
      currency: currency("currency"),
      attempt_count: isKnown ? count("attempt_count") : null,
      next_payment_attempt: timeOrNull(next),
    };
  },
});

const MAX_URL_LENGTH = 2_048;

/**
 * Returns a link that is safe in an e-mail: https, without a user name or password
 * that would look like a host, and without invisible characters.
 */
function httpsUrlOrNull(value: unknown): string | null {
  if (typeof value !== "string" || value.length > MAX_URL_LENGTH) return null;
  if (/[\s\p{C}]/u.test(value) || !URL.canParse(value)) return null;
  const { protocol, username, password } = new URL(value);
  return protocol === "https:" && username === "" && password === ""
    ? value
    : null;
}
