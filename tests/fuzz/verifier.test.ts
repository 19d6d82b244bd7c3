/**
 * The verifier agrees with Stripe's package, the Standard Webhooks package and
 * Node's HMAC on any delivery, except for the list of intended differences.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  DeliveryError,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";
import { caseCount, freshSeed, seldom } from "../support/random.ts";
import { macOf, type TestedScheme } from "../support/sign.ts";
import {
  type Delivery,
  FAULTY,
  FOREIGN,
  HEADERS,
  isAcceptedByReference,
  NOW,
  STRICTER,
} from "./reference.ts";

const SECRETS = ["b25lIHNlY3JldCBvZiB0aGUg", "dHdvIHNlY3JldCBvZiB0aGUg"]
  .map((base64) => `whsec_${base64}`);
const LONG_ID = "i".repeat(256);
const SEPARATORS = {
  "stripe": [",", "="],
  "standard-webhooks": [" ", ","],
  "hmac-sha256-hex": ["", ""],
} as const;

/** TIME and MAC stand for the right ones, the other words for changes of them. */
const times = fc.constantFrom(
  ...["TIMEabc", "TIME.9", "TIMEe3", "TIME=1", "+TIME", "TIME000", "-TIME", ""],
);
const macs = fc.constantFrom(
  ...["OTHER", "HALF", "UPPER", "MAC\u00a0", "MAC=", "MAC=00", "MAC0", " MAC"],
);
const entries = fc.tuple(
  seldom(12, fc.constantFrom("v0", "V1", "v1a"), "v1"),
  seldom(6, macs, "MAC"),
);
const ids = fc.constantFrom("msg.1", "a b", "a,b", "caf\u00e9", "", LONG_ID);

/** How a delivery is made: most are signed well, and then changed or not. */
const choices = fc.record({
  secrets: seldom(
    8,
    fc.shuffledSubarray([...FAULTY, ...SECRETS], {
      ...{ minLength: 1, maxLength: 2 },
    }),
    SECRETS,
  ),
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
  entries: fc.array(entries, { minLength: 1, maxLength: 2 }),
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
  const { secrets, id, at } = made;
  const body = Uint8Array.from(made.body);
  const secret = secrets[made.signer % secrets.length]!;
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
  return { scheme, secrets, headers, body };
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
  { scheme, secrets, headers, body }: Delivery,
): Promise<boolean> {
  const providers = await readProviders({
    PROVIDER_A_SIGNING_SECRET: secrets.join(),
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
    const { status } = ERRORS[error.code];
    const isFaulty = secrets.some((secret) => FAULTY.includes(secret));
    assert(status === 401 || status === 500 && isFaulty, error.code);
    return false;
  }
}
