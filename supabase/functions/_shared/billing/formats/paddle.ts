/**
 * Paddle Billing. Each event has a snapshot of what it is about, and a time with
 * microseconds.
 *
 * @see https://developer.paddle.com/webhooks/overview
 */
import { z } from "zod/mini";
import { count, identifier, instant, maybe, member } from "../fields.ts";
import { amountOf, currency, snapshots } from "./format.ts";

export const paddle = snapshots({
  scheme: "paddle",
  kinds: {
    "subscription.created": "creation",
    "subscription.imported": "creation",
    "subscription.updated": "update",
    "subscription.activated": "update",
    "subscription.trialing": "update",
    "subscription.past_due": "update",
    "subscription.paused": "update",
    "subscription.resumed": "update",
    "subscription.canceled": "deletion",
    "transaction.payment_failed": "payment_failed",
  },
  names: {
    type: "event_type",
    id: "event_id",
    occurred_at: "occurred_at",
    subscription_id: "data.id",
    account_id: "data.custom_data.accountId",
    data: "data",
  },
  open(event) {
    const data = member(event, "data");
    const type = member(event, "event_type");
    return {
      type,
      id: member(event, "event_id"),
      occurred_at: member(event, "occurred_at"),
      subscription_id: `${type}`.startsWith("subscription.")
        ? member(data, "id")
        : member(data, "subscription_id"),
      customer_id: member(data, "customer_id"),
      // Paddle copies it from the checkout's transaction to the subscription.
      accounts: [member(member(data, "custom_data"), "accountId")],
      data,
    };
  },
  report: () =>
    z.pipe(
      z.looseObject({
        status: identifier,
        items: z.tuple([item()], item()),
        customer_id: maybe(identifier),
        current_billing_period: period(),
        next_billed_at: maybe(instant),
        scheduled_change: maybe(z.looseObject({
          action: z.unknown(),
          effective_at: maybe(instant),
          resume_at: maybe(instant),
        })),
      }),
      z.transform(({ items, next_billed_at, ...data }) => {
        const [{ price, quantity, trial_dates }] = items;
        const change = data.scheduled_change;
        const ends_at = data.current_billing_period?.ends_at ?? next_billed_at;
        return {
          plan_id: price.id,
          current_period_end: ends_at,
          provider_status: data.status,
          customer_id: data.customer_id,
          quantity,
          cancel_at: change?.action === "cancel" ? change.effective_at : null,
          trial_end: trial_dates?.ends_at ??
            (data.status === "trialing" ? next_billed_at : null),
          paused: null,
          paused_until: data.status === "paused"
            ? change?.resume_at ?? change?.effective_at ?? null
            : null,
          livemode: null,
          items: items.map((item) => ({
            item_id: null,
            price_id: item.price.id,
            product_id: item.price.product_id,
            quantity: item.quantity,
            usage_type: null,
            current_period_end: ends_at,
          })),
          items_complete: true,
        };
      }),
    ),
  payment: () =>
    z.pipe(
      z.looseObject({
        id: maybe(identifier),
        currency_code: currency(),
        details: maybe(z.looseObject({
          totals: maybe(z.looseObject({ grand_total: z.unknown() })),
        })),
      }),
      z.transform(({ id, details, currency_code }) => ({
        invoice_id: id,
        amount_due: amountOf(details?.totals?.grand_total),
        currency: currency_code,
      })),
    ),
});

function item() {
  return z.looseObject({
    price: z.looseObject({ id: identifier, product_id: maybe(identifier) }),
    quantity: maybe(count),
    trial_dates: period(),
  });
}

function period() {
  return maybe(z.looseObject({ ends_at: maybe(instant) }));
}
