/**
 * Signs as the providers do, by code that is not the receiver's: Stripe's
 * package, the Standard Webhooks package, and Node's HMAC.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

/** The receiver's schemes, by their names in its configuration. */
export const SIGNATURE_SCHEMES = [
  "stripe",
  "hmac-sha256-hex",
  "standard-webhooks",
] as const;

/** One of `SIGNATURE_SCHEMES`. */
export type SignatureScheme = typeof SIGNATURE_SCHEMES[number];

/** What is signed, and how. */
export interface Signing {
  scheme: SignatureScheme;
  /** The header that carries the signature. */
  header: string;
  secret: string;
  /** Text, or bytes where the body is not valid UTF-8. */
  body: string | Uint8Array;
  /** Unix time in seconds, by default now; for the schemes that carry one. */
  timestamp?: number;
  /** The message's id in Standard Webhooks, by default a new one. */
  id?: string;
}

/**
 * The headers that carry the signature of a body.
 *
 * The packages sign text only. The signature of bytes is computed by
 * `node:crypto` instead, and the test of this file holds the two equal.
 *
 * @throws where the secret or the header does not fit the scheme
 */
export async function signatureHeaders(
  { scheme, header, secret, body, timestamp = now(), id = newId() }: Signing,
): Promise<Record<string, string>> {
  switch (scheme) {
    case "stripe":
      return { [header]: await stripeSignature(body, { secret, timestamp }) };
    case "hmac-sha256-hex":
      return { [header]: hmac(secret, body).digest("hex") };
    case "standard-webhooks": {
      const prefix = prefixOf(header);
      return {
        [`${prefix}id`]: id,
        [`${prefix}timestamp`]: String(timestamp),
        [header]: standardSignature(body, { secret, timestamp, id }),
      };
    }
  }
}

function stripeSignature(
  body: string | Uint8Array,
  { secret, timestamp }: { secret: string; timestamp: number },
): Promise<string> {
  return Stripe.webhooks.generateTestHeaderStringAsync(
    typeof body === "string" ? { payload: body, secret, timestamp } : {
      payload: "",
      secret,
      timestamp,
      signature: hmac(secret, `${timestamp}.`).update(body).digest("hex"),
    },
  );
}

function standardSignature(
  body: string | Uint8Array,
  { secret, timestamp, id }: { secret: string; timestamp: number; id: string },
): string {
  // The constructor refuses a secret that is not base64, for bytes as well.
  const webhook = webhookFor(secret);
  if (typeof body === "string") {
    return webhook.sign(id, new Date(timestamp * 1000), body);
  }
  const key = Uint8Array.from(
    atob(secret.replace(/^whsec_/, "")),
    (character) => character.charCodeAt(0),
  );
  return `v1,${hmac(key, `${id}.${timestamp}.`).update(body).digest("base64")}`;
}

function webhookFor(secret: string): Webhook {
  try {
    return new Webhook(secret);
  } catch (cause) {
    throw new Error(
      "Cannot sign: the secret of the scheme standard-webhooks must be whsec_ and base64 after it.",
      { cause },
    );
  }
}

function prefixOf(header: string): string {
  const prefix = /^(.*-)signature$/i.exec(header)?.[1];
  if (prefix === undefined) {
    throw new Error(
      `Cannot sign: the header ${header} must end with -signature, because the id and time headers share what stands before it.`,
    );
  }
  return prefix;
}

function hmac(key: string | Uint8Array, part: string | Uint8Array) {
  return createHmac("sha256", key).update(part);
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}

function newId(): string {
  return `msg_${crypto.randomUUID()}`;
}
