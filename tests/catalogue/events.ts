/** Events with a mark in them, by which a leaked payload is found. */
import { createHash } from "node:crypto";
import { edited } from "../support/edited.ts";
import {
  invoiceEvent,
  type InvoiceEventOptions,
} from "../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
} from "../../scripts/events/subscription_event.ts";
import { PAYLOAD_MARK } from "./secrets.ts";

const MARKED = { "data.object.note": PAYLOAD_MARK };

export function creation(options: SubscriptionEventOptions = {}) {
  return edited(
    subscriptionEvent("customer.subscription.created", options),
    MARKED,
  );
}

export function update(options: SubscriptionEventOptions = {}) {
  return edited(
    subscriptionEvent("customer.subscription.updated", options),
    MARKED,
  );
}

export function deletion(options: SubscriptionEventOptions = {}) {
  return edited(
    subscriptionEvent("customer.subscription.deleted", options),
    MARKED,
  );
}

export function failedInvoice(options: InvoiceEventOptions = {}) {
  return edited(invoiceEvent(options), MARKED);
}

/** An event of a type that is not handled. */
export function ignoredEvent() {
  return edited(paymentIntentEvent(), MARKED);
}

/** Returns the ID under which a body without a usable ID is filed. */
export function hashId(body: string | Uint8Array): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}
