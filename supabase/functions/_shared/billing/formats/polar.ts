/**
 * Polar. An event has its id in a header, and a snapshot of what it is about.
 *
 * @see https://polar.sh/docs/integrate/webhooks/delivery
 */
import { z } from "zod/mini";
import { count, identifier, instant, maybe, member } from "../fields.ts";
import { amountOf, currency, snapshots, soleItem } from "./format.ts";

export const polar = snapshots({
  scheme: "polar",
  kinds: {
    "subscription.created": "creation",
    // Polar sends it beside each of the others, with the same data.
    "subscription.updated": "update",
    "subscription.revoked": "deletion",
    "subscription.past_due": "payment_failed",
  },
  names: {
    type: "type",
    id: "webhook-id",
    occurred_at: "timestamp",
    subscription_id: "data.id",
    account_id: "data.customer.external_id, or data.metadata.accountId,",
    data: "data",
  },
  idOf: (_, { deliveryId }) => deliveryId,
  open(event) {
    const data = member(event, "data");
    const type = member(event, "type");
    return {
      type,
      occurred_at: member(event, "timestamp"),
      subscription_id: `${type}`.startsWith("subscription.")
        ? member(data, "id")
        : member(data, "subscription_id"),
      customer_id: member(data, "customer_id"),
      accounts: [
        member(member(data, "customer"), "external_id"),
        member(member(data, "metadata"), "accountId"),
      ],
      data,
    };
  },
  report: () =>
    z.pipe(
      z.looseObject({
        status: identifier,
        product_id: identifier,
        customer_id: maybe(identifier),
        seats: maybe(count),
        units: maybe(count),
        current_period_end: maybe(instant),
        cancel_at_period_end: z.unknown(),
        ends_at: maybe(instant),
        trial_end: maybe(instant),
        resumes_at: maybe(instant),
      }),
      z.transform(({ seats, units, current_period_end, ...data }) => ({
        plan_id: data.product_id,
        current_period_end,
        provider_status: data.status,
        customer_id: data.customer_id,
        quantity: seats ?? units,
        cancel_at: data.cancel_at_period_end === true
          ? data.ends_at ?? current_period_end
          : null,
        trial_end: data.trial_end,
        paused: null,
        paused_until: data.resumes_at,
        livemode: null,
        ...soleItem({
          product_id: data.product_id,
          quantity: seats ?? units,
          current_period_end,
        }),
      })),
    ),
  payment: () =>
    z.pipe(
      z.looseObject({ amount: z.unknown(), currency: currency() }),
      z.transform(({ amount, currency }) => ({
        amount_due: amountOf(amount),
        currency,
      })),
    ),
});
