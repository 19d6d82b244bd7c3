import { Buffer } from "node:buffer";

/**
 * Bytes as text in which each character is one byte, as HTTP's heads are read
 * (RFC 9112, section 2.2). TextDecoder's "latin1" is another code, which does
 * not lead back to the same bytes.
 */
export function decodeLatin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString("latin1");
}

/** The way back. */
export function encodeLatin1(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}
