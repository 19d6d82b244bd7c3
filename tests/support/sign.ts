import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";

export type TestedScheme = "stripe" | "hmac-sha256-hex" | "standard-webhooks";

/** Returns the HMAC-SHA256 of the parts together, in hex, as Node makes it. */
export function hmacHex(
  secret: string | Uint8Array,
  ...parts: readonly (string | Uint8Array)[]
): string {
  const hmac = createHmac("sha256", secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest("hex");
}

/** Returns the MAC of a body in the form of its scheme, by Node's HMAC. */
export function macOf(
  scheme: TestedScheme,
  body: string | Uint8Array,
  { secret, time, id }: { secret: string; time: string; id: string },
): string {
  if (scheme === "stripe") return hmacHex(secret, `${time}.`, body);
  if (scheme === "hmac-sha256-hex") return hmacHex(secret, body);
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const hex = hmacHex(key, `${id}.${time}.`, body);
  return Buffer.from(hex, "hex").toString("base64");
}
