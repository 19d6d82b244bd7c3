/**
 * Signatures of the three schemes, taken apart, so that a row can put them
 * together wrong. Signed by Node's HMAC, not by the receiver's code.
 *
 * @module
 */
import { macOf } from "../support/sign.ts";
import type { Endpoint } from "./stage.ts";

/** The parts of a signature that a row may change. */
export interface SignatureParts {
  /** As text, in Unix seconds unless the row is about that. */
  readonly time: string;
  /** The id of a Standard Webhooks message. */
  readonly id: string;
  /** In hex, or in base64 for Standard Webhooks. */
  readonly mac: string;
}

export type Body = string | Uint8Array<ArrayBuffer>;

/** Returns the Unix time in whole seconds. */
export function unixNow(): number {
  return Math.floor(Date.now() / 1000);
}

/**
 * Returns the parts of a body's signature.
 *
 * @param options.time By default now.
 */
export function signatureOf(
  { scheme, secret }: Endpoint,
  body: Body,
  { time = String(unixNow()), id = "msg_catalogue" }: {
    time?: string;
    id?: string;
  } = {},
): SignatureParts {
  return { time, id, mac: macOf(scheme, body, { secret, time, id }) };
}

/**
 * Returns the headers that carry a signature.
 *
 * @param value The signature header's value, if it is not the normal one.
 */
export function headersOf(
  { scheme, header }: Endpoint,
  { time, id, mac }: SignatureParts,
  value?: string,
): Record<string, string> {
  switch (scheme) {
    case "stripe":
      return { [header]: value ?? `t=${time},v1=${mac}` };
    case "hmac-sha256-hex":
      return { [header]: value ?? mac };
    case "standard-webhooks":
      return {
        "webhook-id": id,
        "webhook-timestamp": time,
        [header]: value ?? `v1,${mac}`,
      };
  }
}

/** Returns the headers of a body that is signed as its provider does. */
export function signedHeaders(
  endpoint: Endpoint,
  body: Body,
): Record<string, string> {
  return headersOf(endpoint, signatureOf(endpoint, body));
}
