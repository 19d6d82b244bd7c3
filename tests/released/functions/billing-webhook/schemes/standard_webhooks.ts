import { fromSeconds, MAX_SIGNATURES, type SignatureScheme } from "./scheme.ts";

/**
 * As for the other schemes. The specification asks those who issue secrets for
 * 24 to 64 random bytes.
 */
const MIN_SECRET_BYTES = 16;

const SECRET =
  /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** 32 bytes in base64 have one form: 43 characters, the last of 4 bits, and `=`. */
const SIGNATURE = /^v1,[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/**
 * Entries of version and signature, separated by single spaces. If the header
 * was sent twice, the joined value has one comma too many.
 */
const ENTRIES = /^[^\s,]+,[^\s,]+(?: [^\s,]+,[^\s,]+)*$/;

/**
 * Visible ASCII without the dot, which would make the signed text ambiguous,
 * and the comma, which joins headers.
 */
const ID = /^[!-+\-/-~]{1,255}$/;

/**
 * Headers `<prefix>-id`, `<prefix>-timestamp` and `<prefix>-signature`. The last
 * is `v1,<base64> v1,<base64> ...`, separated by single spaces: HMAC-SHA256 of
 * `<id>.<timestamp>.<body>`, with the bytes of `whsec_<base64>` as the key.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export const standardWebhooks: SignatureScheme = {
  defaultHeader: "webhook-signature",

  keyBytes(secret) {
    if (!SECRET.test(secret)) {
      throw new Error(
        "it must be whsec_ followed by base64: copy the whole secret",
      );
    }
    const bytes = fromBase64(secret.slice("whsec_".length));
    if (bytes.byteLength < MIN_SECRET_BYTES) {
      throw new Error(
        `its base64 must decode to at least ${MIN_SECRET_BYTES} bytes: copy the whole secret`,
      );
    }
    return bytes;
  },

  readClaim(headers, header) {
    const prefix = header.slice(0, -"signature".length);
    const id = headers.get(`${prefix}id`) ?? "";
    const seconds = headers.get(`${prefix}timestamp`) ?? "";
    const timestamp = fromSeconds(seconds);
    const entries = headers.get(header) ?? "";
    if (
      !ID.test(id) || timestamp === undefined || !ENTRIES.test(entries)
    ) {
      return undefined;
    }

    const signatures = entries.split(" ")
      .filter((entry) => entry.startsWith("v1,"))
      .slice(0, MAX_SIGNATURES)
      .filter((entry) => SIGNATURE.test(entry))
      .map((entry) => fromBase64(entry.slice("v1,".length)));
    return { prefix: `${id}.${seconds}.`, timestamp, signatures };
  },
};

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
