/**
 * The verifier beside Stripe's package and the Standard Webhooks package. The unit tests
 * state where it is stricter, and the scheme without a package.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import Stripe from "stripe";
import {
  DeliveryError,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";
import { caseCount, checkProperty } from "../support/random.ts";
import { macOf } from "../support/sign.ts";

const NOW = 1_800_000_000;
const TOLERANCE_SECONDS = 300;

/** The signature's header, with what separates its entries and their parts. */
const SCHEMES = {
  "stripe": {
    header: "provider-a-signature",
    separator: ",",
    between: "=",
  },
  "standard-webhooks": {
    header: "webhook-signature",
    separator: " ",
    between: ",",
  },
} as const;
type Scheme = keyof typeof SCHEMES;

const SECRETS = ["b25lIHNlY3JldCBvZiB0aGUg", "dHdvIHNlY3JldCBvZiB0aGUg"]
  .map((base64) => `whsec_${base64}`);

interface Delivery {
  readonly scheme: Scheme;
  readonly headers: Headers;
  readonly body: string;
}

const oneOf = (...texts: string[]) => fc.constantFrom(...texts);

const sound = fc.record({
  signer: fc.nat(1),
  body: fc.string({ unit: "binary", minLength: 1, maxLength: 40 }),
  age: fc.constantFrom<number>(0, 0, 299, 300, -299, -300),
  id: oneOf("msg_2Lh9KRb0pzN4LePd3XiA4v12Axj"),
  /** TIME and MAC stand for the right ones, the other words for changes of them. */
  signedTime: oneOf("TIME"),
  mac: oneOf("MAC"),
  version: oneOf("v1"),
  /** How many signatures of others are before the right one and behind it. */
  before: fc.nat(7),
  behind: fc.nat(2),
  /** How many entries have an unknown version. */
  unknown: fc.nat(9),
});

const times = oneOf(
  "TIMEabc",
  "TIME.9",
  "TIMEe3",
  "TIME=1",
  "+TIME",
  "TIME000",
  "-TIME",
  "",
);

/** Possible changes; a changed delivery may still be a good one. */
const CHANGES = {
  age: fc.constantFrom<number>(301, -301, NOW, -315_360_000),
  id: oneOf("msg.1", "a b", "a,b", "caf\u00e9", "", "i".repeat(256)),
  signedTime: times,
  sentTime: times,
  mac: oneOf(
    "OTHER",
    "HALF",
    "UPPER",
    "MAC\u00a0",
    "MAC=",
    "MAC=00",
    "MAC0",
    " MAC",
  ),
  version: oneOf("v0", "V1", "v1a", ""),
  before: fc.integer({ min: 8, max: 12 }),
  entry: oneOf("t=TIME", "t=1", "v1", "x", "v0=", " ", ""),
  separator: oneOf(", ", " ,", "  ", ";", "\t"),
  length: fc.constantFrom(4_096, 4_097, 6_000),
  /** Characters of one header, in the place of others. */
  edit: fc.record({
    at: fc.oneof(fc.nat(4), fc.nat(300)),
    removed: fc.constantFrom(0, 1, 20, 300),
    added: oneOf("", ..."0aFtv=,. +/_\t\u00e9"),
  }),
  isWithout: fc.constant(true),
  sentBody: fc.string({ minLength: 1, maxLength: 40 }),
};
type Generated<T> = T extends fc.Arbitrary<infer V> ? V : never;
type Change = {
  [Name in keyof typeof CHANGES]?: Generated<typeof CHANGES[Name]>;
};

const change: fc.Arbitrary<Change> = fc.oneof(
  ...Object.entries(CHANGES).map(([name, values]) =>
    fc.record({ [name]: values })
  ),
);
const cases = fc.record({
  made: sound,
  changes: fc.array(change, { maxLength: 2 }),
  /** The header that is edited or missing, and the place of an entry. */
  chosen: fc.nat(20),
});

function makeDelivery(
  scheme: Scheme,
  { made, changes, chosen }: Generated<typeof cases>,
): Delivery {
  const all: typeof made & Change = Object.assign({}, made, ...changes);
  const { id, body, edit, length = 0, sentBody = body } = all;

  const secret = SECRETS[all.signer]!;
  const withTime = (text: string) =>
    text.replace("TIME", String(NOW - all.age));
  const time = withTime(all.signedTime);
  const sentTime = all.sentTime === undefined ? time : withTime(all.sentTime);

  const mac = macOf(scheme, body, { secret, time, id });
  const other = macOf(scheme, "other", { secret, time, id });
  const words: Record<string, string> = {
    MAC: mac,
    OTHER: other,
    HALF: mac.slice(0, 32) + other.slice(32),
    UPPER: mac.toUpperCase(),
  };
  // In one pass: the base64 of a MAC may have one of the words.
  const sentMac = all.mac.replace(
    /MAC|OTHER|HALF|UPPER/,
    (word) => words[word]!,
  );

  const { header, separator, between } = SCHEMES[scheme];
  const entries = [
    ...Array(all.unknown).fill(`v1a${between}${other}`),
    ...Array(all.before).fill(`v1${between}${other}`),
    `${all.version}${between}${sentMac}`,
    ...Array(all.behind).fill(`v1${between}${other}`),
  ];
  if (scheme === "stripe") entries.unshift(`t=${sentTime}`);
  if (all.entry !== undefined) {
    entries.splice(chosen % (entries.length + 1), 0, withTime(all.entry));
  }
  const value = entries.join(all.separator ?? separator);

  const values = Object.entries({
    [header]: length === 0
      ? value
      : `${value}${separator}v0${between}`.padEnd(length, "0"),
    ...(scheme === "standard-webhooks" &&
      { "webhook-id": id, "webhook-timestamp": sentTime }),
  });
  const headers = new Headers(values);
  const [name, text] = values[chosen % values.length]!;
  if (edit) {
    const at = edit.at % (text.length + 1);
    const rest = text.slice(at + edit.removed);
    headers.set(name, text.slice(0, at) + edit.added + rest);
  }
  if (all.isWithout) headers.delete(name);
  return { scheme, headers, body: sentBody };
}

async function isAcceptedByPackage(
  secret: string,
  { scheme, headers, body }: Delivery,
): Promise<boolean> {
  try {
    if (scheme === "standard-webhooks") {
      const options = { jsonParse: false };
      new Webhook(secret).verify(body, Object.fromEntries(headers), options);
      return true;
    }
    // Stripe's package compares texts, and the receiver compares bytes.
    const value = (headers.get(SCHEMES.stripe.header) ?? "")
      .replaceAll(/[0-9a-f]{64}/gi, (mac) => mac.toLowerCase());
    return await Stripe.webhooks.signature!.verifyHeaderAsync(
      body,
      value,
      secret,
      TOLERANCE_SECONDS,
      undefined,
      NOW * 1_000,
    );
  } catch (error) {
    const isRefusal = error instanceof WebhookVerificationError ||
      error instanceof Stripe.errors.StripeSignatureVerificationError;
    // Stripe's package breaks on a v1 without "=".
    if (isRefusal || error instanceof TypeError) return false;
    throw error;
  }
}

async function isVerified(
  delivery: Delivery,
  providers: Awaited<ReturnType<typeof readProviders>>,
): Promise<boolean> {
  const body = new TextEncoder().encode(delivery.body);
  try {
    const verified = await verifyDelivery(
      { headers: delivery.headers, body },
      {
        providers,
        nowSeconds: NOW + 0.5,
        toleranceSeconds: TOLERANCE_SECONDS,
      },
    );
    assert(verified.body === body, "It is another body");
    return true;
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    assertEquals(ERRORS[error.code].status, 401, error.code);
    return false;
  }
}

for (const scheme of Object.keys(SCHEMES) as Scheme[]) {
  Deno.test(`verifyDelivery() accepts for ${scheme} nothing that the package refuses`, async () => {
    const numRuns = Math.ceil(caseCount(5_000) / 2);
    const providers = await readProviders({
      PROVIDER_A_SIGNING_SECRET: SECRETS.join(),
      PROVIDER_A_SIGNATURE_SCHEME: scheme,
    });
    const counts = { sound: 0, changed: 0, stricter: 0, refused: 0 };
    const property = fc.asyncProperty(cases, async (generated) => {
      const delivery = makeDelivery(scheme, generated);
      let isTaken = false;
      for (const secret of SECRETS) {
        isTaken ||= await isAcceptedByPackage(secret, delivery);
      }
      const isAccepted = await isVerified(delivery, providers);
      if (isAccepted) assert(isTaken, "Its package refuses it");

      if (generated.changes.length === 0) {
        assert(isAccepted, "It is signed well");
        counts.sound++;
      } else if (isAccepted) counts.changed++;
      else if (isTaken) counts.stricter++;
      else counts.refused++;
    });

    // The Standard Webhooks package takes no clock.
    const clock = Date.now;
    Date.now = () => NOW * 1_000;
    await checkProperty(property, { numRuns })
      .finally(() => Date.now = clock);
    console.log(`${numRuns} cases of ${scheme}:`, counts);
    for (const count of Object.values(counts)) assert(count > numRuns / 200);
  });
}
