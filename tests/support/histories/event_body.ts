import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import type { HistoryEvent } from "./history.ts";

/**
 * Returns the full-size body that a provider sends for an event of a history.
 */
export function eventBody(event: HistoryEvent): object {
  const { id, created, apiVersion, subscription, values, previous } = event;
  if (event.type === "invoice.payment_failed") {
    const { account } = event;
    const { customer } = values;
    return invoiceEvent({
      id,
      created,
      apiVersion,
      subscription,
      account,
      customer,
    });
  }
  return subscriptionEvent(event.type, {
    id,
    created,
    apiVersion,
    subscription,
    account: event.namesAccount ? event.account : null,
    ...values,
    previous,
  });
}
