/**
 * Signatures as the providers make them, by code that is not the receiver's:
 * Stripe's SDK, the Standard Webhooks library, and Node's HMAC.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

/** HMAC-SHA256 in hex over the parts, one after the other. */
export function hmacHex(
  secret: string | Uint8Array,
  ...parts: readonly (string | Uint8Array)[]
): string {
  const hmac = createHmac("sha256", secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest("hex");
}

/**
 * The header `t=...,v1=...` that Stripe's SDK makes.
 *
 * @param options.timestamp In Unix seconds.
 */
export function stripeHeader(
  body: string,
  { secret, timestamp }: { secret: string; timestamp: number },
): Promise<string> {
  return Stripe.webhooks.generateTestHeaderStringAsync({
    payload: body,
    secret,
    timestamp,
  });
}

/**
 * The three headers of Standard Webhooks, signed by its library.
 *
 * @param options.timestamp In Unix seconds.
 * @param options.prefix `webhook` unless given; Svix has its own.
 */
export function standardHeaders(
  body: string,
  { secret, timestamp, id = "msg_1", prefix = "webhook" }: {
    secret: string;
    timestamp: number;
    id?: string;
    prefix?: string;
  },
): Record<string, string> {
  const signature = new Webhook(secret)
    .sign(id, new Date(timestamp * 1000), body);
  return {
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(timestamp),
    [`${prefix}-signature`]: signature,
  };
}
