import { DeliveryError } from "./errors.ts";

/** Shared by all bodies: without `stream`, it keeps no state between them. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns the text of a body, decoded strictly. It drops a byte order mark at
 * the start, which is part of the signed bytes but not JSON.
 *
 * @throws {DeliveryError} `body_not_text` if the bytes are not UTF-8.
 */
export function decodeBody(body: Uint8Array): string {
  try {
    return UTF_8.decode(body);
  } catch {
    throw new DeliveryError("body_not_text", "The body is not valid UTF-8");
  }
}
