import {
  fromHex,
  fromSeconds,
  MAX_SIGNATURES,
  type SignatureScheme,
} from "./scheme.ts";

/**
 * `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`: HMAC-SHA256 of `<t>.<body>`, with
 * the whole secret string as the key. Other versions (v0) are ignored.
 *
 * Stricter than Stripe's SDK, which uses the last of two `t` and the number at
 * the start of `123abc`. A header that was sent twice is refused.
 *
 * @see https://docs.stripe.com/webhooks#verify-manually
 */
export const stripe: SignatureScheme = {
  keyBytes: (secret) => new TextEncoder().encode(secret),

  readClaim(headers, header) {
    const value = headers.get(header) ?? "";
    const entries = value.split(",").map(splitEntry);
    const times = entries.filter(([key]) => key === "t");
    const seconds = times[0]?.[1] ?? "";
    const timestamp = fromSeconds(seconds);
    if (
      /\s/.test(value) || times.length !== 1 || timestamp === undefined ||
      entries.some(([, entry]) => entry === undefined)
    ) {
      return undefined;
    }

    const signatures = entries
      .filter(([key]) => key === "v1")
      .slice(0, MAX_SIGNATURES)
      .flatMap(([, hex]) => fromHex(hex ?? "") ?? []);
    return { prefix: `${seconds}.`, timestamp, signatures };
  },
};

/** Splits an entry at its first `=`; the value is undefined if there is none. */
function splitEntry(entry: string): [key: string, value: string | undefined] {
  const at = entry.indexOf("=");
  return at < 0
    ? [entry, undefined]
    : [entry.slice(0, at), entry.slice(at + 1)];
}
