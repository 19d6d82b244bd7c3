import type { StripeEvent } from "./event_types.ts";
import * as templates from "./templates.ts";
import { uniqueId } from "./unique_id.ts";

export interface PaymentEventOptions extends templates.EventOptions {
  /** The customer's subscription; by default, a new one for every event. */
  readonly subscription?: string;
  readonly account?: string;
  /** The `payment_status` of a checkout; by default, `paid`. */
  readonly status?: string;
}

export function paymentEvent(
  type: Extract<
    templates.EventType,
    `${"charge" | "checkout" | "payment_intent"}.${string}`
  >,
  options: PaymentEventOptions = {},
): StripeEvent {
  const { subscription = uniqueId("sub") } = options;
  const event = templates.eventFrom(templates.templateOf(type), {
    options,
    values: [
      ["3ExamplePayment0000000001", uniqueId("pi").slice(3)],
      ["cus_ExampleCustomer01", templates.customerOf(subscription)],
      ["acc_1ExampleAccount", options.account],
    ],
  });
  const { object } = event.data;
  if (options.status && "mode" in object) {
    object["payment_status"] = options.status;
  }
  return event;
}
