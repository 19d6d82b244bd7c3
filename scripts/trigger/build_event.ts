import { invoiceEvent } from "../events/invoice_event.ts";
import { paymentIntentEvent } from "../events/payment_intent_event.ts";
import { subscriptionEvent } from "../events/subscription_event.ts";
import type { StripeEvent } from "../events/event_types.ts";
import type { EventType } from "../events/templates.ts";
import type { ProviderName } from "../common/provider_settings.ts";
import type { EventArguments } from "./arguments.ts";

const ACCOUNT = "acc_local";

/**
 * Returns the subscription to use if none is named, so that consecutive
 * commands are about the same one. Each provider has its own: a subscription
 * belongs to the provider that created it.
 */
export function defaultSubscription(provider: ProviderName): string {
  return `sub_local_${provider}`;
}

/**
 * Returns the event that the arguments describe.
 *
 * @param created Unix time in seconds, unless the arguments name another.
 */
export function buildEvent(
  { type, event, ...rest }: EventArguments,
  { provider, created }: { provider: ProviderName; created: number },
): StripeEvent<object> {
  const options = {
    subscription: defaultSubscription(provider),
    account: ACCOUNT,
    created,
    ...rest,
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
 * milliseconds.
 *
 * Events are dated in whole seconds, and within one second a creation counts
 * as older than an update or a deletion. A creation that is sent after a
 * deletion means a new start, so it waits for the next second, which no earlier
 * command can have used.
 *
 * @param nowMs Milliseconds since the epoch.
 */
export function waitBeforeMs(type: EventType, nowMs: number): number {
  return type === "customer.subscription.created" ? 1000 - nowMs % 1000 : 0;
}
