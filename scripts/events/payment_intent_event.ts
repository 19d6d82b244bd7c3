import type { StripeEvent } from "./event_types.ts";
import { eventFrom, type EventOptions, templateOf } from "./templates.ts";
import { uniqueId } from "./unique_id.ts";

/** Returns `payment_intent.payment_failed`, which the receiver does not handle. */
export function paymentIntentEvent(
  options: EventOptions = {},
): StripeEvent<{ id: string }> {
  const template = templateOf<{ id: string }>(
    "payment_intent.payment_failed",
  );
  return eventFrom(template, {
    options,
    values: [[template.data.object.id, uniqueId("pi")]],
  });
}
