/** The signature of a delivery, as its headers state it. */
export interface SignatureClaim {
  /** The text that is signed in front of the body, in UTF-8. */
  readonly prefix: string;
  /** When the provider signed, in Unix seconds, if the scheme has a time. */
  readonly timestamp?: number;
  /** Signatures as raw bytes; any of them may match. */
  readonly signatures: readonly Uint8Array<ArrayBuffer>[];
}

/** A way to sign a body with HMAC-SHA256 and to send the signature. */
export interface SignatureScheme {
  /** The default header of the scheme; if none, the provider's default applies. */
  readonly defaultHeader?: string;
  /**
   * Returns the HMAC key for a configured secret.
   *
   * @throws {Error} If the secret is malformed; does not repeat it.
   */
  keyBytes(secret: string): Uint8Array<ArrayBuffer>;
  /**
   * Reads the headers; returns undefined if they are malformed. It never throws,
   * and takes time linear in the length of the headers.
   */
  readClaim(headers: Headers, header: string): SignatureClaim | undefined;
}

/**
 * While a secret is rotated, a sender signs with each; more than a few is an
 * attack.
 */
export const MAX_SIGNATURES = 8;

/**
 * Decodes an HMAC-SHA256 in hex, upper or lower case; returns undefined for
 * anything else.
 */
export function fromHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[0-9a-f]{64}$/i.test(text)) return undefined;
  const bytes = new Uint8Array(32);
  for (let i = 0; i < 32; i++) {
    bytes[i] = digit(text, 2 * i) << 4 | digit(text, 2 * i + 1);
  }
  return bytes;
}

/**
 * Returns the value of a hex digit. For a letter, upper or lower case, it is
 * the low bits plus 9.
 */
function digit(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return (code & 15) + (code >> 6) * 9;
}

/** Parses Unix seconds in decimal digits; returns undefined for anything else. */
export function fromSeconds(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
