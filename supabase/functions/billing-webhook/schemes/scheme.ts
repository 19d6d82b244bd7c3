/** What a delivery's headers say about its signature. */
export interface SignatureClaim {
  /** The signed text in front of the body, in UTF-8. */
  readonly prefix: string;
  /** When the provider signed, in Unix seconds, for schemes that tell. */
  readonly timestamp?: number;
  /** Signatures as raw bytes; any of them may match. */
  readonly signatures: readonly Uint8Array<ArrayBuffer>[];
}

/** A way to sign a body with HMAC-SHA256 and to carry the signature. */
export interface SignatureScheme {
  /** Which header carries the signature unless configured; else the provider's own. */
  readonly defaultHeader?: string;
  /**
   * The HMAC key that a configured secret stands for.
   *
   * @throws {Error} Saying what is wrong with the secret, without repeating it.
   */
  keyBytes(secret: string): Uint8Array<ArrayBuffer>;
  /**
   * Reads the headers; undefined where they are malformed. It never throws and
   * takes time linear in the headers' length.
   */
  readClaim(headers: Headers, header: string): SignatureClaim | undefined;
}

/** A sender that rolls its secret signs with each; more than a few is an attack. */
export const MAX_SIGNATURES = 8;

/** HMAC-SHA256 in hex, upper or lower case; undefined for anything else. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[0-9a-f]{64}$/i.test(text)) return undefined;
  const bytes = new Uint8Array(32);
  for (let i = 0; i < 32; i++) {
    bytes[i] = digit(text, 2 * i) << 4 | digit(text, 2 * i + 1);
  }
  return bytes;
}

/** The value of a hex digit; letters of either case are 9 more than their low bits. */
function digit(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return (code & 15) + (code >> 6) * 9;
}

/** Unix seconds in plain decimal digits; undefined for anything else. */
export function fromSeconds(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
