/**
 * Signs as the providers do, by code that is not the receiver's: Node's HMAC.
 * The tests verify it with Stripe's package and that of Standard Webhooks.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";

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
  readonly scheme: SignatureScheme;
  /** The header that carries the signature. */
  readonly header: string;
  readonly secret: string;
  readonly body: string | Uint8Array;
  /** Unix time in seconds, by default now; for the schemes that carry one. */
  readonly timestamp?: number;
  /** The message's ID in Standard Webhooks, by default a new one. */
  readonly id?: string;
}

/**
 * Returns the headers that carry the signature of a body.
 *
 * @throws {Error} If the secret or the header does not fit the scheme.
 */
export function signatureHeaders({
  scheme,
  header,
  secret,
  body,
  timestamp = Math.floor(Date.now() / 1000),
  id = `msg_${crypto.randomUUID()}`,
}: Signing): Record<string, string> {
  switch (scheme) {
    case "stripe": {
      const signature = hmac(secret, `${timestamp}.`, body).digest("hex");
      return { [header]: `t=${timestamp},v1=${signature}` };
    }
    case "hmac-sha256-hex":
      return { [header]: hmac(secret, body).digest("hex") };
    case "standard-webhooks": {
      const prefix = prefixOf(header);
      const key = standardKey(secret);
      const signature = hmac(key, `${id}.${timestamp}.`, body).digest("base64");
      return {
        [`${prefix}id`]: id,
        [`${prefix}timestamp`]: String(timestamp),
        [header]: `v1,${signature}`,
      };
    }
  }
}

function hmac(
  key: string | Uint8Array,
  ...parts: readonly (string | Uint8Array)[]
) {
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  return hmac;
}

function standardKey(secret: string): Uint8Array {
  const base64 = secret.replace(/^whsec_/, "");
  if (base64.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(base64)) {
    return Buffer.from(base64, "base64");
  }
  throw new Error(
    "Cannot sign: the secret for standard-webhooks must be whsec_ followed by base64.",
  );
}

function prefixOf(header: string): string {
  const prefix = /^(.*-)signature$/i.exec(header)?.[1];
  if (prefix !== undefined) return prefix;
  throw new Error(
    `Cannot sign: the header ${header} must end with -signature, because the ID and time headers have the same prefix.`,
  );
}
