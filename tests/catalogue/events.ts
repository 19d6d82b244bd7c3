/**
 * What is sent: events with a mark, and signatures taken apart, so that a row
 * can put them together wrong. Signed by Node's HMAC, not by the receiver's
 * code.
 *
 * @module
 */
import { createHash } from "node:crypto";
import {
  invoiceEvent,
  type InvoiceEventOptions,
} from "../../scripts/events/invoice_event.ts";
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
  type SubscriptionEventType,
} from "../../scripts/events/subscription_event.ts";
import { edited } from "../support/edited.ts";
import { macOf } from "../support/sign.ts";
import type { Endpoint } from "./stage.ts";

/** In every body, so that a payload in a log is found. */
export const PAYLOAD_MARK = "CATALOGUEpayload";

/** Of the API version that moved fields of the older one. */
export const NEWEST = { apiVersion: "2026-10-28.endive" } as const;

const marked = <Event extends object>(event: Event) =>
  edited(event, { "data.object.note": PAYLOAD_MARK });

const subscription =
  (type: SubscriptionEventType) => (options: SubscriptionEventOptions = {}) =>
    marked(subscriptionEvent(type, options));

export const creation = subscription("customer.subscription.created");
export const update = subscription("customer.subscription.updated");
export const deletion = subscription("customer.subscription.deleted");
export const failedInvoice = (options: InvoiceEventOptions = {}) =>
  marked(invoiceEvent(options));

/** Text or bytes, as they are sent. */
export type Body = string | Uint8Array<ArrayBuffer>;

/** Returns the ID under which a body without a usable ID is filed. */
export function hashId(body: Body): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

/** Returns an event's JSON with another text in the place of a value. */
export function withText(event: object, from: string, to: string): string {
  const text = JSON.stringify(event);
  if (!text.includes(from)) throw new TypeError(`There is no ${from}`);
  return text.replace(from, () => to);
}

/** Returns the Unix time in whole seconds. */
export function unixNow(): number {
  return Math.floor(Date.now() / 1_000);
}

/** The parts of a signature that a row may change. */
export interface SignatureParts {
  readonly scheme: Endpoint["scheme"];
  /** As text, in Unix seconds unless the row is about that. */
  readonly time: string;
  /** The ID of a Standard Webhooks message. */
  readonly id: string;
  /** In hex, or in base64 for Standard Webhooks. */
  readonly mac: string;
}

/** Returns the parts of a body's signature. */
export function signatureOf(
  { scheme, secret }: Endpoint,
  body: Body,
  { time, id = "msg_catalogue" }: { time: string; id?: string | undefined },
): SignatureParts {
  return { scheme, time, id, mac: macOf(scheme, body, { secret, time, id }) };
}

/** Returns the signature header's value with these MACs instead of the own. */
export function valueOf(
  { scheme, time, mac }: SignatureParts,
  macs: readonly string[] = [mac],
): string {
  switch (scheme) {
    case "stripe":
      return [`t=${time}`, ...macs.map((mac) => `v1=${mac}`)].join(",");
    case "hmac-sha256-hex":
      return macs.join();
    case "standard-webhooks":
      return macs.map((mac) => `v1,${mac}`).join(" ");
  }
}

/**
 * Returns the headers that carry a signature.
 *
 * @param value The signature header's value, if it is not the normal one.
 */
export function headersOf(
  { header }: Endpoint,
  parts: SignatureParts,
  value = valueOf(parts),
): Record<string, string> {
  const { scheme, id, time } = parts;
  return scheme === "standard-webhooks"
    ? { "webhook-id": id, "webhook-timestamp": time, [header]: value }
    : { [header]: value };
}
