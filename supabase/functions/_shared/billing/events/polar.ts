/**
 * Polar. An event has its id in a header, and a snapshot of its object.
 *
 * @see https://polar.sh/docs/integrate/webhooks/delivery
 */
import { defineFormat, itemOf } from "./define_format.ts";

export const polar = defineFormat({
  scheme: "polar",

  kinds: {
    "subscription.created": "creation",
    // Polar sends it in addition to each of the others, with the same data.
    "subscription.updated": "opening_update",
    "subscription.revoked": "deletion",
    "subscription.past_due": "payment_failed",
  },

  names: {
    type: "type",
    id: "webhook-id",
    occurred_at: "timestamp",
    subscription_id: "data.id",
    payment_subscription_id: "data.subscription_id",
    customer_id: "data.customer_id",
    account_ids: ["data.metadata.accountId"],
    // Only a fallback: a person's second team may have that of the first
    // (docs/providers.md).
    fallback_account: "data.customer.external_id",
    data: "data",
    plan_id: "data.product_id",
    provider_status: "data.status",
  },
  idOf: (_, { deliveryId }) => deliveryId,

  report({ get, id, instant, count }) {
    const status = get("status");
    const quantity = count("seats") ?? count("units");
    const current_period_end = instant("current_period_end");

    return {
      plan_id: get("product_id"),
      current_period_end,
      provider_status: status,
      quantity,
      cancel_at: get("cancel_at_period_end") === true
        ? instant("ends_at") ?? current_period_end
        : null,
      trial_end: instant("trial_end"),
      // A planned pause has `resumes_at` too.
      paused_until: status === "paused" ? instant("resumes_at") : null,
      items: [
        itemOf({ product_id: id("product_id"), quantity, current_period_end }),
      ],
    };
  },

  // The amount of a subscription includes neither tax nor usage.
  payment: () => ({}),
});
