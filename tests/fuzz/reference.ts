/**
 * The verdict of the providers' own packages on a delivery, and the only cases
 * in which the receiver's may differ from it.
 *
 * @module
 */
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import Stripe from "stripe";
import { macOf, type TestedScheme } from "../support/sign.ts";

/** The receiver's clock, in Unix seconds. */
export const NOW = 1_800_000_000;

/** The header that carries provider A's signature, by scheme. */
export const HEADERS = {
  "stripe": "provider-a-signature",
  "hmac-sha256-hex": "provider-a-signature",
  "standard-webhooks": "webhook-signature",
} as const;
/** Of provider B, which has the plain scheme and a secret of its own. */
export const FOREIGN = "provider-b-signature";

/** Common mistakes in the place of a secret. */
export const FAULTY = ["", "whsec_", "x", "whsec_...", " a-secret-of-a-copy\n"];

/** A delivery, and the secrets of the provider that it claims to be from. */
export interface Delivery {
  readonly scheme: TestedScheme;
  readonly secrets: readonly string[];
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

const TOLERANCE_SECONDS = 300;
/** Any text that the packages take. */
const STAND_IN = "{}";

/** Returns whether the scheme's package accepts it with one of the secrets. */
export async function isAcceptedByReference(
  delivery: Delivery,
): Promise<boolean> {
  for (const secret of delivery.secrets) {
    if (await acceptsWith(secret, delivery)) return true;
  }
  return false;
}

/**
 * The packages refuse some deliveries that are accepted here, so they get them
 * in a form that they take: upper-case hex, because bytes are compared and not
 * texts; a body that is empty or not UTF-8, because the exact bytes are verified
 * here, and answered with 400 then.
 */
async function acceptsWith(
  secret: string,
  { scheme, headers, body }: Delivery,
): Promise<boolean> {
  const given = headers.get(HEADERS[scheme]) ?? "";
  const id = headers.get("webhook-id") ?? "";
  const time = scheme === "stripe"
    ? /(?:^|,)t=([^,=]*)/.exec(given)?.[1] ?? ""
    : headers.get("webhook-timestamp") ?? "";
  const signed = { secret, time, id };
  const own = macOf(scheme, body, signed);
  if (scheme === "hmac-sha256-hex") return given.toLowerCase() === own;

  const lower = scheme === "stripe"
    ? given.replaceAll(
      /(?<=(?:^|,)v1=)[0-9a-f]{64}(?=$|,|=)/gi,
      (mac) => mac.toLowerCase(),
    )
    : given;
  const text = textOf(body);
  const value = text
    ? lower
    : lower.replaceAll(own, macOf(scheme, STAND_IN, signed));
  try {
    if (scheme === "stripe") {
      await Stripe.webhooks.constructEventAsync(
        text || STAND_IN,
        value,
        secret,
        TOLERANCE_SECONDS,
        undefined,
        NOW * 1_000,
      );
    } else {
      const sent = { ...Object.fromEntries(headers), [HEADERS[scheme]]: value };
      new Webhook(secret).verify(text || STAND_IN, sent, { jsonParse: false });
    }
    return true;
  } catch (error) {
    // Stripe's package verifies first and parses then.
    if (error instanceof SyntaxError) return true;
    const isRefusal = error instanceof WebhookVerificationError ||
      error instanceof Stripe.errors.StripeSignatureVerificationError;
    // Stripe's package breaks on a v1 without "=", the other one on some secrets.
    const isBroken = scheme === "stripe"
      ? error instanceof TypeError && /(^|,)v1(,|$)/.test(value)
      : FAULTY.includes(secret);
    if (isRefusal || isBroken) return false;
    throw error;
  }
}

/** Returns undefined if it is not UTF-8. A byte order mark stays. */
function textOf(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(body);
  } catch {
    return undefined;
  }
}

type Refusals = Readonly<Record<string, (delivery: Delivery) => boolean>>;

const ANY: Refusals = {
  // Anybody can sign with an empty one; white space is a bad copy.
  "a faulty secret": ({ secrets }) =>
    secrets.some((secret) => FAULTY.includes(secret)),
  "headers of two providers": ({ headers }) => headers.has(FOREIGN),
};

const TEXT: Refusals = {
  ...ANY,
  "a header over 4 kB": (delivery) => valueOf(delivery).length > 4_096,
  // Nobody rolls that many secrets.
  "only behind 8 others": (delivery) =>
    !macs(delivery).slice(0, 8).some(isValid(delivery)),
};

const isTime = (text: string) => /^[0-9]{1,10}$/.test(text);

/** By scheme, what its package accepts and the receiver refuses. */
export const STRICTER: Readonly<Record<TestedScheme, Refusals>> = {
  "hmac-sha256-hex": ANY,
  "stripe": {
    ...TEXT,
    // The package looks at the past only, so a t far ahead never ages.
    "dated ahead": (delivery) =>
      parseInt(entries(delivery, "t").at(-1) ?? "") > NOW + TOLERANCE_SECONDS,
    // The package takes the last; a header joined from two is refused.
    "several t": (delivery) => entries(delivery, "t").length > 1,
    // The package reads the number at the beginning of 123abc.
    "a time that is not 1 to 10 digits": (delivery) =>
      !entries(delivery, "t").every(isTime),
    "white space": (delivery) => /\s/.test(valueOf(delivery)),
    "an entry without =": (delivery) =>
      valueOf(delivery).split(",").some((entry) => !entry.includes("=")),
    // The package drops what follows a second =.
    "something behind the MAC": (delivery) =>
      !macs(delivery).some(isValid(delivery)),
  },
  "standard-webhooks": {
    ...TEXT,
    // A dot makes the signed text ambiguous; a comma comes from two headers.
    "an id that is not short and plain": ({ headers }) =>
      !/^[!-+\-/-~]{1,255}$/.test(headers.get("webhook-id") ?? ""),
    "a time that is not 1 to 10 digits": ({ headers }) =>
      !isTime(headers.get("webhook-timestamp") ?? ""),
    // The package drops what is too much.
    "a list that is not version,signature with single spaces": (delivery) =>
      valueOf(delivery).split(" ")
        .some((entry) => !/^[^\s,]+,[^\s,]+$/.test(entry)),
  },
};

function valueOf({ headers, scheme }: Delivery): string {
  return headers.get(HEADERS[scheme]) ?? "";
}

/** All behind the first separator of the entries of a key. */
function entries(delivery: Delivery, key: string): string[] {
  const [separator, between] = delivery.scheme === "stripe"
    ? [",", "="]
    : [" ", ","];
  return valueOf(delivery).split(separator)
    .filter((entry) => entry === key || entry.startsWith(key + between))
    .map((entry) => entry.slice(key.length + 1));
}

const macs = (delivery: Delivery) => entries(delivery, "v1");

/** Whether one of the secrets makes it of this body, by Node's HMAC. */
function isValid(delivery: Delivery): (mac: string) => boolean {
  const { scheme, secrets, body, headers } = delivery;
  const isStripe = scheme === "stripe";
  const time = isStripe
    ? entries(delivery, "t")[0]
    : headers.get("webhook-timestamp");
  const id = headers.get("webhook-id") ?? "";
  const valid = secrets.map((secret) =>
    macOf(scheme, body, { secret, time: time ?? "", id })
  );
  return (mac) => valid.includes(isStripe ? mac.toLowerCase() : mac);
}
