import {
  fromHex,
  fromSeconds,
  MAX_SIGNATURES,
  type SignatureScheme,
} from "./scheme.ts";

/**
 * `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`: HMAC-SHA256 of `<t>.<body>`, keyed
 * with the whole secret string. Entries of other versions (v0) are ignored.
 *
 * Stricter than Stripe's SDK, which takes the last of two `t`, and the number
 * at the start of `123abc`: a header that was joined from two is refused.
 *
 * @see https://docs.stripe.com/webhooks#verify-manually
 */
export const stripe: SignatureScheme = {
  keyBytes: (secret) => new TextEncoder().encode(secret),

  readClaim(headers, header) {
    const value = headers.get(header) ?? "";
    const entries = value.split(",").map((entry) => entry.split("=", 2));
    const malformed = /\s/.test(value) ||
      entries.some((entry) => entry.length < 2);
    const times = entries.filter(([key]) => key === "t");
    const timestamp = fromSeconds(times[0]?.[1] ?? "");
    if (malformed || times.length !== 1 || timestamp === undefined) {
      return undefined;
    }

    const signatures = entries
      .filter(([key]) => key === "v1")
      .slice(0, MAX_SIGNATURES)
      .flatMap(([, hex]) => fromHex(hex ?? "") ?? []);
    return { prefix: `${times[0]?.[1]}.`, timestamp, signatures };
  },
};
