import { DeliveryError } from "./errors.ts";

/**
 * Returns the text of a body, decoded strictly. It drops a byte order mark at
 * the start, which is part of the signed bytes but not JSON.
 *
 * @throws {DeliveryError} `body_not_text` if the bytes are not UTF-8.
 */
export function decodeBody(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    throw new DeliveryError("body_not_text", "The body is not valid UTF-8");
  }
}
