import { invoiceEvent } from "../../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import type { BillingEvent } from "../../../supabase/functions/_shared/billing/database/apply_events.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import { parseEvent } from "../../../supabase/functions/_shared/billing/events/parse_event.ts";
import type { HistoryEvent } from "./model.ts";

function eventBody(event: HistoryEvent): object {
  const { type, account, namesAccount, values, ...rest } = event;
  if (type === "invoice.payment_failed") {
    return invoiceEvent({ ...rest, account, customer: values.customer });
  }
  return subscriptionEvent(type, {
    ...rest,
    account: namesAccount ? account : null,
    ...values,
  });
}

/** Events come again, and take longer to make and read than to apply. */
const read = new WeakMap<HistoryEvent, BillingEvent>();

export function wireEvent(event: HistoryEvent): BillingEvent {
  const known = read.get(event);
  if (known) return known;
  const parsed = parseEvent(JSON.stringify(eventBody(event)), {
    format: stripe,
    nowSeconds: event.created,
    toleranceSeconds: 0,
    notify: new Set(["payment_failed"]),
  });
  if (parsed.isIgnored) throw new Error(`${event.type} is not handled`);
  const wire = { provider: "a", ...parsed.event };
  read.set(event, wire);
  return wire;
}
