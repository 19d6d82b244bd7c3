/**
 * Dodo Payments. An event has its id in a header, and the state at the time of the
 * delivery, not of the event: a retry may differ.
 *
 * @see https://docs.dodopayments.com/developer-resources/webhooks
 */
import { defineFormat, itemOf } from "./define_format.ts";
import { dateTimeOrNull, listOf, readerOf } from "./fields.ts";

/** Dodo's statuses, mapped to those that the access rule knows. */
const STATUSES = new Map<unknown, string>([
  ["pending", "incomplete"],
  ["active", "active"],
  ["past_due", "past_due"],
  // After the grace period, if the merchant gives one.
  ["on_hold", "past_due"],
  ["paused", "paused"],
  ["cancelled", "canceled"],
  ["failed", "canceled"],
  ["expired", "incomplete_expired"],
]);

const DAY_MS = 86_400_000;

export const dodo = defineFormat({
  scheme: "standard-webhooks",

  kinds: {
    "subscription.active": "opening_update",
    "subscription.updated": "opening_update",
    "subscription.renewed": "opening_update",
    "subscription.plan_changed": "opening_update",
    "subscription.past_due": "opening_update",
    "subscription.on_hold": "opening_update",
    "subscription.paused": "opening_update",
    "subscription.unpaused": "opening_update",
    "subscription.cancelled": "deletion",
    "subscription.expired": "deletion",
    // The first payment failed; usually there is no record.
    "subscription.failed": "deletion",
    "payment.failed": "payment_failed",
  },

  names: {
    type: "type",
    id: "webhook-id",
    occurred_at: "timestamp",
    subscription_id: "data.subscription_id",
    payment_subscription_id: "data.subscription_id",
    customer_id: "data.customer.customer_id",
    account_ids: ["data.metadata.accountId"],
    data: "data",
    plan_id: "data.product_id",
    provider_status: "data.status",
  },
  idOf: (_, { deliveryId }) => deliveryId,

  report({ get, id, instant, count }) {
    const status = get("status");
    const current_period_end = instant("next_billing_date");
    const start = instant("created_at");
    const trialDays = count("trial_period_days");

    const plan = { product_id: id("product_id"), quantity: count("quantity") };
    const addons = listOf(get("addons")).map((addon) => {
      const { id, count } = readerOf(addon);
      return { product_id: id("addon_id"), quantity: count("quantity") };
    });

    return {
      plan_id: get("product_id"),
      current_period_end,
      provider_status: STATUSES.get(status) ?? status,
      quantity: plan.quantity,
      cancel_at: get("cancel_at_next_billing_date") === true
        ? current_period_end
        : null,
      trial_end: start && trialDays
        ? dateTimeOrNull(Date.parse(start) + trialDays * DAY_MS)
        : null,
      items: [plan, ...addons]
        .map((item) => itemOf({ ...item, current_period_end })),
    };
  },

  payment({ id, amount, currency }) {
    return {
      invoice_id: id("payment_id"),
      amount_due: amount("total_amount"),
      currency: currency("currency"),
    };
  },
});
