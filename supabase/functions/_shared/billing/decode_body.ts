import { DeliveryError } from "./errors.ts";

/**
 * The text of a body, decoded strictly. A byte order mark in front is dropped;
 * it was a part of what was signed, and is no JSON.
 *
 * @throws {DeliveryError} `body_not_text`
 */
export function decodeBody(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    throw new DeliveryError("body_not_text", "The body is not valid UTF-8");
  }
}
