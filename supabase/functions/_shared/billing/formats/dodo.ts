/**
 * Dodo Payments. An event has its id in a header. Its data are those of the attempt, and
 * not of the time at which it occurred: a retry may have other ones.
 *
 * @see https://docs.dodopayments.com/developer-resources/webhooks
 */
import { z } from "zod/mini";
import { count, identifier, instant, maybe, member } from "../fields.ts";
import { amountOf, currency, snapshots } from "./format.ts";

/** Dodo's statuses, in the words that the access rule knows. */
const STATUSES = new Map([
  ["pending", "incomplete"],
  ["active", "active"],
  ["on_hold", "past_due"],
  ["paused", "paused"],
  ["cancelled", "canceled"],
  ["failed", "canceled"],
  ["expired", "incomplete_expired"],
]);

export const dodo = snapshots({
  scheme: "standard-webhooks",
  kinds: {
    "subscription.active": "opening_update",
    "subscription.updated": "opening_update",
    // Its first payment failed: as a rule, there is no record.
    "subscription.failed": "opening_update",
    "subscription.renewed": "update",
    "subscription.plan_changed": "update",
    "subscription.on_hold": "update",
    "subscription.paused": "update",
    "subscription.unpaused": "update",
    "subscription.cancelled": "deletion",
    "subscription.expired": "deletion",
    "payment.failed": "payment_failed",
  },
  names: {
    type: "type",
    id: "webhook-id",
    occurred_at: "timestamp",
    subscription_id: "data.subscription_id",
    account_id: "data.metadata.accountId",
    data: "data",
  },
  idOf: (_, { deliveryId }) => deliveryId,
  open(event) {
    const data = member(event, "data");
    return {
      type: member(event, "type"),
      occurred_at: member(event, "timestamp"),
      subscription_id: member(data, "subscription_id"),
      customer_id: member(member(data, "customer"), "customer_id"),
      accounts: [member(member(data, "metadata"), "accountId")],
      data,
    };
  },
  report: () =>
    z.pipe(
      z.looseObject({
        status: identifier,
        product_id: identifier,
        customer: maybe(z.looseObject({ customer_id: maybe(identifier) })),
        quantity: maybe(count),
        addons: maybe(z.array(z.looseObject({
          addon_id: maybe(identifier),
          quantity: maybe(count),
        }))),
        next_billing_date: maybe(instant),
        cancel_at_next_billing_date: z.unknown(),
        created_at: maybe(instant),
        trial_period_days: maybe(count),
      }),
      z.transform(({ next_billing_date, addons, ...data }) => ({
        plan_id: data.product_id,
        current_period_end: next_billing_date,
        provider_status: STATUSES.get(data.status) ?? data.status,
        customer_id: data.customer?.customer_id ?? null,
        quantity: data.quantity,
        cancel_at: data.cancel_at_next_billing_date === true
          ? next_billing_date
          : null,
        trial_end: daysAfter(data.created_at, data.trial_period_days),
        paused: null,
        paused_until: null,
        livemode: null,
        items: [
          { id: data.product_id, quantity: data.quantity },
          ...(addons ?? []).map(({ addon_id: id, quantity }) => ({
            id,
            quantity,
          })),
        ].map(({ id, quantity }) => ({
          item_id: null,
          price_id: null,
          product_id: id,
          quantity,
          usage_type: null,
          current_period_end: next_billing_date,
        })),
        items_complete: true,
      })),
    ),
  payment: () =>
    z.pipe(
      z.looseObject({
        payment_id: maybe(identifier),
        total_amount: z.unknown(),
        currency: currency(),
      }),
      z.transform(({ payment_id, total_amount, currency }) => ({
        invoice_id: payment_id,
        amount_due: amountOf(total_amount),
        currency,
      })),
    ),
});

const DAY_MS = 86_400_000;

function daysAfter(start: string | null, days: number | null): string | null {
  return start === null || !days
    ? null
    : new Date(Date.parse(start) + days * DAY_MS).toISOString();
}
