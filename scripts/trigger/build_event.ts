import type { ProviderName } from "../common/sign.ts";
import type { StripeEvent } from "../events/event_types.ts";
import { invoiceEvent } from "../events/invoice_event.ts";
import { subscriptionEvent } from "../events/subscription_event.ts";
import { type EventType, paymentIntentEvent } from "../events/templates.ts";
import type { EventArguments } from "./arguments.ts";

/**
 * Returns the subscription to use if none is named: one for each provider, since
 * a subscription belongs to the provider that created it.
 */
export function defaultSubscription(provider: ProviderName): string {
  return `sub_local_${provider}`;
}

/** Returns the event that the arguments describe, dated now. */
export function buildEvent(
  { type, event, ...given }: EventArguments,
  provider: ProviderName,
): StripeEvent<object> {
  const options = {
    subscription: defaultSubscription(provider),
    account: "acc_local",
    ...given,
    ...(event !== undefined && { id: event }),
  };
  switch (type) {
    case "invoice.payment_failed":
      return invoiceEvent(options);
    case "payment_intent.payment_failed":
      return paymentIntentEvent(options);
    default:
      return subscriptionEvent(type, options);
  }
}

/**
 * Returns how long to wait before an event of this type is dated, in
 * milliseconds. Within one second a creation counts as older than a deletion. A
 * creation that is sent after a deletion means a new start, so it waits for the
 * next second, which no earlier command can have used.
 *
 * @param nowMs Milliseconds since the epoch.
 */
export function waitBeforeMs(type: EventType, nowMs: number): number {
  return type === "customer.subscription.created" ? 1000 - nowMs % 1000 : 0;
}
