import {
  invoiceEvent,
  paymentIntentEvent,
  subscriptionEvent,
} from "../events/event.ts";
import type { StripeEvent } from "../events/event_types.ts";
import type { EventArguments } from "./arguments.ts";
import type { ProviderName } from "../common/provider_settings.ts";

const ACCOUNT = "acc_local";

/**
 * The subscription where none was named, so that one command after the other
 * is about the same one. One for each provider: a subscription belongs to the
 * provider that created it.
 */
export function defaultSubscription(provider: ProviderName): string {
  return `sub_local_${provider}`;
}

/**
 * Builds the event that was asked for.
 *
 * @param created Unix time in seconds, where the arguments do not say
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
