/**
 * Paddle Billing. Each event has a snapshot of its object, and a time with
 * microseconds.
 *
 * @see https://developer.paddle.com/webhooks/overview
 */
import { defineFormat, itemOf } from "./define_format.ts";
import { listOf, readerOf } from "./fields.ts";

export const paddle = defineFormat({
  scheme: "paddle",

  kinds: {
    "subscription.created": "creation",
    "subscription.imported": "creation",
    "subscription.updated": "opening_update",
    "subscription.activated": "opening_update",
    "subscription.trialing": "opening_update",
    "subscription.past_due": "opening_update",
    "subscription.paused": "opening_update",
    "subscription.resumed": "opening_update",
    "subscription.canceled": "deletion",
    "transaction.payment_failed": "payment_failed",
  },

  names: {
    type: "event_type",
    id: "event_id",
    occurred_at: "occurred_at",
    subscription_id: "data.id",
    payment_subscription_id: "data.subscription_id",
    customer_id: "data.customer_id",
    // Paddle copies it from the checkout's transaction to the subscription.
    account_ids: ["data.custom_data.accountId"],
    data: "data",
    plan_id: "data.items.0.price.id",
    provider_status: "data.status",
  },

  report({ get, instant, count }) {
    const status = get("status");
    const billedAt = instant("next_billed_at");
    const current_period_end = instant("current_billing_period.ends_at") ??
      billedAt;

    const changeAt = instant("scheduled_change.effective_at");
    const willCancel = get("scheduled_change.action") === "cancel";
    const isPaused = status === "paused" && !willCancel;

    return {
      plan_id: get("items.0.price.id"),
      current_period_end,
      provider_status: status,
      quantity: count("items.0.quantity"),
      cancel_at: willCancel ? changeAt : null,
      trial_end: instant("items.0.trial_dates.ends_at") ??
        (status === "trialing" ? billedAt : null),
      paused_until: isPaused
        ? instant("scheduled_change.resume_at") ?? changeAt
        : null,
      items: listOf(get("items")).map((item) => {
        const { id, count } = readerOf(item);
        return itemOf({
          price_id: id("price.id"),
          product_id: id("price.product_id"),
          quantity: count("quantity"),
          current_period_end,
        });
      }),
    };
  },

  payment({ get, id, amount, currency }) {
    const amount_due = amount("details.totals.grand_total");

    // The customer is changing the card, and sees the refusal.
    const isCardChange =
      get("origin") === "subscription_payment_method_change" ||
      amount_due === 0;
    if (isCardChange) return undefined;

    return {
      invoice_id: id("id"),
      amount_due,
      currency: currency("currency_code"),
    };
  },
});
