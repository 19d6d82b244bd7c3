/** How a body is signed, and where the signature is. */
import { fromBase64 } from "../../_shared/billing/events/fields.ts";

export type SignatureClaim = Readonly<{
  /** The text that is signed in front of the body, in UTF-8. */
  prefix: string;
  /** The id of the delivery, if the scheme signs one. */
  id?: string;
  /** When the provider signed, in Unix seconds, if the scheme has a time. */
  timestamp?: number;
  signatures: readonly Uint8Array<ArrayBuffer>[];
}>;

export type SignatureScheme = Readonly<{
  /** The default header of the scheme; without one, the provider's applies. */
  defaultHeader?: string;
  /** Whether the id and the time have headers with the same prefix. */
  hasHeaderPrefix?: true;
  /**
   * Returns the HMAC keys for a configured secret; several if it is ambiguous.
   * @throws {Error} If the secret is malformed; does not repeat it.
   */
  keysOf(secret: string): Uint8Array<ArrayBuffer>[];
  /**
   * Reads the headers; returns undefined if they are malformed. It never throws,
   * and takes time linear in the length of the headers.
   */
  readClaim(headers: Headers, header: string): SignatureClaim | undefined;
}>;

/** While secrets are rotated, a sender signs with each; many signatures are an attack. */
const MAX_SIGNATURES = 8;

/**
 * `t=<unix seconds>,v1=<hex>[,v1=<hex>...]`: HMAC-SHA256 of `<t>.<body>`, with the whole
 * secret string as the key. Other versions (v0) are ignored. Stricter than Stripe's SDK,
 * which uses the last of two `t` and the number at the start of `123abc`.
 *
 * @see https://docs.stripe.com/webhooks#verify-manually
 */
export const stripeScheme: SignatureScheme = {
  keysOf: (secret) => [new TextEncoder().encode(secret)],
  readClaim: entryReader({
    between: ",",
    time: "t",
    signature: "v1",
    end: ".",
  }),
};

/**
 * `ts=<unix seconds>;h1=<hex>[;h1=<hex>...]`: HMAC-SHA256 of `<ts>:<body>`, otherwise like
 * Stripe's.
 *
 * @see https://developer.paddle.com/webhooks/signature-verification
 */
export const paddleScheme: SignatureScheme = {
  defaultHeader: "paddle-signature",
  keysOf: stripeScheme.keysOf,
  readClaim: entryReader({
    between: ";",
    time: "ts",
    signature: "h1",
    end: ":",
  }),
};

/** Makes a reader of headers with a time and signatures in hex. */
function entryReader(
  { between, time, signature, end }: Readonly<
    Record<"between" | "time" | "signature" | "end", string>
  >,
): SignatureScheme["readClaim"] {
  return function readClaim(headers, header) {
    const value = headers.get(header) ?? "";
    // If a header was sent twice, a comma joins its values.
    const isSentTwice = between !== "," && value.includes(",");
    if (/\s/.test(value) || isSentTwice) return undefined;

    const entries = value.split(between)
      .map((entry) => /^([^=]*)=(.*)$/.exec(entry));
    if (entries.includes(null)) return undefined;
    const valuesOf = (key: string) =>
      entries.flatMap((entry) => entry![1] === key ? entry![2]! : []);

    const [seconds = "", ...more] = valuesOf(time);
    const timestamp = fromSeconds(seconds);
    if (timestamp === undefined || more.length > 0) return undefined;

    const signatures = valuesOf(signature).slice(0, MAX_SIGNATURES)
      .flatMap((hex) => fromHex(hex) ?? []);
    return { prefix: `${seconds}${end}`, timestamp, signatures };
  };
}

/** The hex HMAC-SHA256 of the body. Only the ledger protects against a replay. */
export const hmacSha256Hex: SignatureScheme = {
  keysOf: stripeScheme.keysOf,
  readClaim(headers, header) {
    const signature = fromHex(headers.get(header) ?? "");
    return signature && { prefix: "", signatures: [signature] };
  },
};

/** At least 16 bytes, as for the other schemes. */
const SECRET =
  /^whsec_(?:[A-Za-z0-9+/]{4}){5,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/;

/** The only base64 form of 32 bytes: 43 characters, the last of 4 bits, and `=`. */
const SIGNATURE = /^v1,[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

/** Refuses a header that was sent twice: another comma joins its values. */
const ENTRIES = /^[^\s,]+,[^\s,]+(?: [^\s,]+,[^\s,]+)*$/;

/** Visible ASCII without comma and dot; the dot ends it in the signed text. */
const ID = /^[!-+\-/-~]{1,255}$/;

/**
 * Headers `<prefix>-id`, `<prefix>-timestamp` and `<prefix>-signature`. The last
 * is `v1,<base64> v1,<base64> ...`: HMAC-SHA256 of `<id>.<timestamp>.<body>`, with the
 * bytes of `whsec_<base64>` as the key.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export const standardWebhooks: SignatureScheme = {
  defaultHeader: "webhook-signature",
  hasHeaderPrefix: true,

  keysOf(secret) {
    if (!SECRET.test(secret)) {
      throw new Error(
        "it must be whsec_ followed by base64 of at least 16 bytes: copy the whole secret",
      );
    }
    return [fromBase64(secret.slice("whsec_".length))];
  },

  readClaim(headers, header) {
    const prefix = header.slice(0, -"signature".length);
    const id = headers.get(`${prefix}id`) ?? "";
    const seconds = headers.get(`${prefix}timestamp`) ?? "";
    const timestamp = fromSeconds(seconds);
    const entries = headers.get(header) ?? "";
    const isWhole = ID.test(id) && ENTRIES.test(entries);
    if (!isWhole || timestamp === undefined) return undefined;

    const signatures = entries.split(" ")
      .filter((entry) => entry.startsWith("v1,"))
      .slice(0, MAX_SIGNATURES)
      .filter((entry) => SIGNATURE.test(entry))
      .map((entry) => fromBase64(entry.slice("v1,".length)));
    return { prefix: `${id}.${seconds}.`, id, timestamp, signatures };
  },
};

/**
 * Like Standard Webhooks, with two kinds of secrets. Those made since 2026-09-08 are
 * base64 after `whsec_`. The whole text of an older secret is the key, and it may have
 * the same prefix.
 */
export const polarScheme: SignatureScheme = {
  ...standardWebhooks,
  keysOf(secret) {
    const whole = stripeScheme.keysOf(secret);
    // Pads the base64 to groups of four characters.
    const start = "whsec_".length;
    const length = start + Math.ceil((secret.length - start) / 4) * 4;
    try {
      return [...whole, ...standardWebhooks.keysOf(secret.padEnd(length, "="))];
    } catch {
      return whole;
    }
  },
};

/** Returns the bytes of an HMAC-SHA256 in hex; undefined for any other text. */
function fromHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[0-9a-f]{64}$/i.test(text)) return undefined;
  return Uint8Array.from(
    { length: 32 },
    (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16),
  );
}

function fromSeconds(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
