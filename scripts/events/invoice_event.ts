import type { StripeEvent } from "./event_types.ts";
import * as templates from "./templates.ts";
import { uniqueId } from "./unique_id.ts";

type Invoice =
  typeof templates.TEMPLATES["invoice.payment_failed"]["data"]["object"];
type Line = Omit<Invoice["lines"]["data"][0], "parent">;

/** An invoice. Since 2025-03-31.basil, it and its line have a `parent`. */
type InvoiceObject = Omit<Invoice, "customer" | "parent" | "lines"> & {
  customer: string | null;
  subscription?: string;
  parent?: Invoice["parent"];
  lines: { data: [Line & { parent?: object }] };
};

export interface InvoiceEventOptions extends templates.EventOptions {
  /** By default, a new one for every event. */
  readonly invoice?: string;
  readonly subscription?: string;
  readonly account?: string;
  /** By default, the subscription's. */
  readonly customer?: string | null;
}

export function invoiceEvent(
  options: InvoiceEventOptions = {},
  type: Extract<templates.EventType, `invoice.${string}`> =
    "invoice.payment_failed",
): StripeEvent<InvoiceObject> {
  const template = templates.templateOf<InvoiceObject>(type);
  const { id, customer, lines: { data: [line] } } = template.data.object;
  const subscription = options.subscription ?? uniqueId("sub");
  const event = templates.eventFrom(template, {
    options,
    values: [
      [id, options.invoice ?? uniqueId("in")],
      [customer, templates.customerOf(subscription)],
      [line.subscription, subscription],
      [line.metadata.accountId, options.account],
    ],
  });

  const { object } = event.data;
  if (options.customer !== undefined) object.customer = options.customer;
  if (event.api_version === "2024-06-20" && object.parent !== undefined) {
    const { subscription, metadata } = object.parent.subscription_details;
    Object.assign(object, { subscription, subscription_details: { metadata } });
    delete object.parent;
    delete object.lines.data[0].parent;
  }
  return event;
}
