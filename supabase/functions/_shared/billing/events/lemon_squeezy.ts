/**
 * Lemon Squeezy. An event has neither an id nor a time of its own, so both come from
 * its object.
 *
 * @see https://docs.lemonsqueezy.com/help/webhooks
 */
import { defineFormat, itemOf } from "./define_format.ts";
import {
  at,
  identifierOrNull,
  isRecord,
  type Reader,
  readerOf,
  sha256Hex,
} from "./fields.ts";

/** A canceled subscription stays active while it is paid: `subscription_expired` ends it. */
const STATUSES = new Map<unknown, string>([
  ["on_trial", "trialing"],
  ["cancelled", "active"],
  ["expired", "canceled"],
]);

/** Adds a prefix to an id, a small number that other providers may have as well. */
function prefixed(id: unknown): unknown {
  const text = digits(id);
  return typeof text === "string" && text.trim() !== "" ? `ls_${text}` : id;
}

function digits(id: unknown): unknown {
  return Number.isSafeInteger(id) ? `${id}` : id;
}

function report({ get, id, instant, count }: Reader) {
  const status = get("status");
  const plan = digits(get("variant_id"));
  // 0 means that the price is by usage.
  const quantity = count("first_subscription_item.quantity") || null;

  const isCanceled = status === "cancelled";
  const current_period_end = instant(isCanceled ? "ends_at" : "renews_at");

  // A pause in mode `free` keeps the service available.
  const paused = id("pause.mode");
  const isFree = status === "paused" && paused === "free";

  return {
    plan_id: plan,
    current_period_end,
    provider_status: isFree ? "active" : STATUSES.get(status) ?? status,
    quantity,
    cancel_at: isCanceled ? current_period_end : null,
    trial_end: instant("trial_ends_at"),
    paused,
    paused_until: instant("pause.resumes_at"),
    livemode: livemodeOf(get("test_mode")),
    items: [itemOf({
      price_id: identifierOrNull(plan),
      product_id: identifierOrNull(digits(get("product_id"))),
      quantity,
      current_period_end,
    })],
  };
}

function livemodeOf(testMode: unknown): boolean | null {
  return typeof testMode === "boolean" ? !testMode : null;
}

function payment({ amount, currency }: Reader) {
  return { amount_due: amount("total"), currency: currency("currency") };
}

export const lemonSqueezy = defineFormat({
  scheme: "hmac-sha256-hex",
  header: "x-signature",

  kinds: {
    subscription_created: "creation",
    // Lemon Squeezy sends it in addition to each of the others.
    subscription_updated: "opening_update",
    subscription_expired: "deletion",
    subscription_payment_failed: "payment_failed",
  },

  names: {
    type: "meta.event_name",
    id: "data.attributes",
    occurred_at: "data.attributes.updated_at",
    subscription_id: "data.id",
    payment_subscription_id: "data.attributes.subscription_id",
    customer_id: "data.attributes.customer_id",
    account_ids: ["meta.custom_data.account_id", "meta.custom_data.accountId"],
    data: "data.attributes",
    plan_id: "data.attributes.variant_id",
    provider_status: "data.attributes.status",
  },

  /**
   * Returns a hash of the event's type, object and stored data as its id: two updates in
   * one second are two events. The body is not hashed, because its links contain a time.
   */
  async idOf(event, { isWhole }) {
    const data = at(event, "data.attributes");
    if (!isRecord(data)) return undefined;

    const { urls: _, ...withoutLinks } = data;
    const kept = isWhole
      ? withoutLinks
      : [report(readerOf(data)), payment(readerOf(data))];
    const parts = ["meta.event_name", "data.type", "data.id"]
      .map((path) => at(event, path));
    const text = JSON.stringify([...parts, data["updated_at"], kept]);
    return `ls_${await sha256Hex(new TextEncoder().encode(text))}`;
  },

  isSubscription: (event) => at(event, "data.type") === "subscriptions",
  partsOf(event, { subscription_id, customer_id }) {
    const testMode = at(event, "data.attributes.test_mode") ??
      at(event, "meta.test_mode");

    return {
      subscription_id: prefixed(subscription_id),
      customer_id: prefixed(customer_id),
      livemode: livemodeOf(testMode),
    };
  },
  report,
  payment,
});
