/**
 * The verifier agrees with Stripe's package, the Standard Webhooks package and
 * Node's HMAC on any delivery, except for the list of intended differences.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import Stripe from "stripe";
import {
  DeliveryError,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";
import { caseCount, freshSeed, seldom } from "../support/random.ts";
import { macOf, type TestedScheme } from "../support/sign.ts";

/** The receiver's clock, in Unix seconds. */
const NOW = 1_800_000_000;

/** The header that carries provider A's signature, by scheme. */
const HEADERS = {
  "stripe": "provider-a-signature",
  "hmac-sha256-hex": "provider-a-signature",
  "standard-webhooks": "webhook-signature",
} as const;
/** Of provider B, which has the plain scheme and a secret of its own. */
const FOREIGN = "provider-b-signature";

const SECRETS = ["b25lIHNlY3JldCBvZiB0aGUg", "dHdvIHNlY3JldCBvZiB0aGUg"]
  .map((base64) => `whsec_${base64}`);
const LONG_ID = "i".repeat(256);
const SEPARATORS = {
  "stripe": [",", "="],
  "standard-webhooks": [" ", ","],
  "hmac-sha256-hex": ["", ""],
} as const;

interface Delivery {
  readonly scheme: TestedScheme;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

const TOLERANCE_SECONDS = 300;
/** Any text that the packages take. */
const STAND_IN = "{}";

/** Returns whether the scheme's package accepts it with one of the secrets. */
async function isAcceptedByReference(
  delivery: Delivery,
): Promise<boolean> {
  for (const secret of SECRETS) {
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
    // Stripe's package breaks on a v1 without "=".
    const isBroken = error instanceof TypeError && /(^|,)v1(,|$)/.test(value);
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
const STRICTER: Readonly<Record<TestedScheme, Refusals>> = {
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
  const [separator, between] = SEPARATORS[delivery.scheme];
  return valueOf(delivery).split(separator)
    .filter((entry) => entry === key || entry.startsWith(key + between))
    .map((entry) => entry.slice(key.length + 1));
}

const macs = (delivery: Delivery) => entries(delivery, "v1");

/** Whether one of the secrets makes it of this body, by Node's HMAC. */
function isValid(delivery: Delivery): (mac: string) => boolean {
  const { scheme, body, headers } = delivery;
  const isStripe = scheme === "stripe";
  const time = isStripe
    ? entries(delivery, "t")[0]
    : headers.get("webhook-timestamp");
  const id = headers.get("webhook-id") ?? "";
  const valid = SECRETS.map((secret) =>
    macOf(scheme, body, { secret, time: time ?? "", id })
  );
  return (mac) => valid.includes(isStripe ? mac.toLowerCase() : mac);
}

/** TIME and MAC stand for the right ones, the other words for changes of them. */
const times = fc.constantFrom(
  ...["TIMEabc", "TIME.9", "TIMEe3", "TIME=1", "+TIME", "TIME000", "-TIME", ""],
);
const strangeMacs = fc.constantFrom(
  ...["OTHER", "HALF", "UPPER", "MAC\u00a0", "MAC=", "MAC=00", "MAC0", " MAC"],
);
const oneEntry = fc.tuple(
  seldom(12, fc.constantFrom("v0", "V1", "v1a"), "v1"),
  seldom(6, strangeMacs, "MAC"),
);
const ids = fc.constantFrom("msg.1", "a b", "a,b", "caf\u00e9", "", LONG_ID);

/** How a delivery is made: most are signed well, and then changed or not. */
const choices = fc.record({
  signer: fc.nat(1),
  body: fc.uint8Array({ maxLength: 40 }),
  age: seldom(
    3,
    fc.constantFrom(299, 300, 301, -299, -300, -301, NOW, -315_360_000),
    0,
  ),
  // What is no time, and signed all the same; or only sent.
  signedTime: seldom(16, times, "TIME"),
  sentTime: seldom(8, times, ""),
  id: seldom(8, ids, "msg_2Lh9KRb0pzN4LePd3XiA4v12Axj"),
  others: seldom(6, fc.nat(12), 0),
  entries: fc.array(oneEntry, { minLength: 1, maxLength: 2 }),
  strange: seldom(
    6,
    fc.constantFrom("t=TIME", "t=1", "v1", "x", "v0=", " ", ""),
    "NONE",
  ),
  separator: seldom(20, fc.constantFrom(", ", " ,", "  ", ";", "\t"), ""),
  length: seldom(25, fc.constantFrom(4_096, 4_097, 6_000), 0),
  // Characters of one header, in the place of others.
  header: fc.nat(2),
  at: fc.oneof(fc.nat(4), fc.nat(300)),
  removed: seldom(10, fc.constantFrom(1, 20, 300), 0),
  added: seldom(10, fc.constantFrom(..."0aFtv=,. +/_\t\u00e9"), ""),
  isWithout: seldom(25, fc.constant(true), false),
  isForeign: seldom(30, fc.constant(true), false),
  isBodyChanged: seldom(16, fc.constant(true), false),
});

function makeDelivery(
  scheme: TestedScheme,
  made: typeof choices extends fc.Arbitrary<infer Made> ? Made : never,
): Delivery {
  const { id, at } = made;
  const body = Uint8Array.from(made.body);
  const secret = SECRETS[made.signer]!;
  const withTime = (text: string) =>
    text.replace("TIME", String(NOW - made.age));
  const time = withTime(made.signedTime);
  const mac = macOf(scheme, body, { secret, time, id });
  const other = macOf(scheme, "other", { secret, time, id });
  const withMac = (text: string) =>
    text.replace("MAC", mac).replace("OTHER", other)
      .replace("HALF", mac.slice(0, 32) + other.slice(32))
      .replace("UPPER", mac.toUpperCase());

  const [separator, between] = SEPARATORS[scheme];
  const sentTime = made.sentTime ? withTime(made.sentTime) : time;
  const list = [...Array(made.others).fill(["v1", "OTHER"]), ...made.entries]
    .map(([version, mac]) => version + between + withMac(mac));
  if (scheme === "stripe") list.unshift(`t=${sentTime}`);
  if (made.strange !== "NONE") {
    list.splice(at % (list.length + 1), 0, withTime(made.strange));
  }
  const value = scheme === "hmac-sha256-hex"
    ? withMac(made.entries[0]![1])
    : list.join(made.separator || separator);
  const padded = made.length > 0
    ? `${value}${separator}v0${between}`.padEnd(made.length, "0")
    : value;

  const values = Object.entries({
    [HEADERS[scheme]]: padded,
    ...(scheme === "standard-webhooks" &&
      { "webhook-id": id, "webhook-timestamp": sentTime }),
  });
  const [name, text] = values[made.header % values.length]!;
  const place = at % (text.length + 1);
  const headers = new Headers(values);
  if (made.isForeign) headers.set(FOREIGN, "0".repeat(64));
  if (made.isWithout) headers.delete(name);
  else if (made.added || made.removed) {
    const rest = text.slice(place + made.removed);
    headers.set(name, text.slice(0, place) + made.added + rest);
  }
  if (made.isBodyChanged && body.length > 0) body[at % body.length]! ^= 1;
  return { scheme, headers, body };
}

for (const scheme of Object.keys(STRICTER) as TestedScheme[]) {
  Deno.test(`verifyDelivery() agrees with the reference for ${scheme}, except for the intended differences`, async () => {
    const seed = freshSeed();
    const numRuns = Math.ceil(caseCount(15_000) / 3);
    const counts: Record<string, number> = { accepted: 0 };
    // The Standard Webhooks package takes no clock.
    const clock = Date.now;
    Date.now = () => NOW * 1_000;
    try {
      await fc.assert(
        fc.asyncProperty(choices, async (made) => {
          const delivery = makeDelivery(scheme, made);
          const isAccepted = await isAcceptedByReference(delivery);
          const stricter = Object.entries(STRICTER[scheme])
            .flatMap(([name, refuses]) => refuses(delivery) ? [name] : []);
          const expected = isAccepted && stricter.length === 0;
          assertEquals(await isVerified(delivery), expected, String(stricter));
          const seen = expected ? ["accepted"] : isAccepted ? stricter : [];
          for (const name of seen) counts[name] = (counts[name] ?? 0) + 1;
        }),
        { seed, numRuns },
      );
    } finally {
      Date.now = clock;
    }
    console.log(`${numRuns} cases of ${scheme}, seed ${seed}:`, counts);
    assert(counts["accepted"]! > numRuns / 10, "Too few were accepted");
    if (numRuns < 5_000) return;
    const met = Object.keys(STRICTER[scheme]).filter((name) => counts[name]);
    assertEquals(met, Object.keys(STRICTER[scheme]), "Intended, and met");
  });
}

async function isVerified(
  { scheme, headers, body }: Delivery,
): Promise<boolean> {
  const providers = await readProviders({
    PROVIDER_A_SIGNING_SECRET: SECRETS.join(),
    PROVIDER_A_SIGNATURE_SCHEME: scheme,
    PROVIDER_B_SIGNING_SECRET: "whsec_another-secret-of-theirs",
  });
  try {
    const options = { providers, nowSeconds: NOW + 0.5, toleranceSeconds: 300 };
    const verified = await verifyDelivery({ headers, body }, options);
    assertEquals(verified.provider, "a");
    assert(verified.body === body, "It is another body");
    return true;
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    assertEquals(ERRORS[error.code].status, 401, error.code);
    return false;
  }
}
