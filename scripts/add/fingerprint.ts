import { createHash } from "node:crypto";

/**
 * Returns the SHA-256 of a text, in hex. Line ends do not count: git may check
 * out the same file with either.
 */
export function fingerprint(text: string): string {
  return createHash("sha256").update(withLf(text)).digest("hex");
}

/** Returns a text with LF as line ends. */
export function withLf(text: string): string {
  return text.replaceAll("\r\n", "\n");
}
