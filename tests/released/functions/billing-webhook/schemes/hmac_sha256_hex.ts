import { fromHex, type SignatureScheme } from "./scheme.ts";

/**
 * The header is the hex HMAC-SHA256 of the body. It has no time, so only the
 * ledger protects against a replay.
 */
export const hmacSha256Hex: SignatureScheme = {
  keyBytes: (secret) => new TextEncoder().encode(secret),

  readClaim(headers, header) {
    const signature = fromHex(headers.get(header) ?? "");
    return signature && { prefix: "", signatures: [signature] };
  },
};
