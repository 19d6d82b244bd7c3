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
    if (/\s/.test(value)) return undefined;
    let seconds: string | undefined;
    const hexes: string[] = [];
    for (const entry of value.split(",")) {
      const at = entry.indexOf("=");
      if (at < 0) return undefined;
      const key = entry.slice(0, at);
      if (key === "t" && seconds !== undefined) return undefined;
      if (key === "t") seconds = entry.slice(at + 1);
      if (key === "v1") hexes.push(entry.slice(at + 1));
    }
    const timestamp = fromSeconds(seconds ?? "");
    if (timestamp === undefined) return undefined;
    const signatures = hexes.slice(0, MAX_SIGNATURES)
      .flatMap((hex) => fromHex(hex) ?? []);
    return { prefix: `${seconds}.`, timestamp, signatures };
  },
};
