import { eventFrom, type EventOptions, templateOf } from "./event.ts";
import type { PaymentIntentObject, StripeEvent } from "./event_types.ts";
import { uniqueId } from "./unique_id.ts";

/**
 * Returns `payment_intent.payment_failed`, which the receiver does not handle.
 */
export function paymentIntentEvent(
  options: EventOptions = {},
): StripeEvent<PaymentIntentObject> {
  const template = templateOf<PaymentIntentObject>(
    "payment_intent.payment_failed",
    options,
  );
  return eventFrom(template, {
    options,
    values: [[template.data.object.id, uniqueId("pi")]],
  });
}
