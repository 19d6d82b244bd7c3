import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  ANSWERS,
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  type VerifiedDelivery,
  verifyDelivery,
} from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { hmacHex, standardHeaders, stripeHeader } from "../../support/sign.ts";

const NOW = 1_800_000_000;
const BODY = '{ "id": "evt_1",\n  "type":"customer.subscription.deleted" }';
// A byte order mark, and a byte that UTF-8 does not have.
const BYTES = new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d, 0xff, 0x00]);
const SECRET_A = "whsec_unit-test-of-provider-a";
const SECRET_B = "unit-test-of-provider-b";
const OLD_A = "whsec_the-old-secret-of-a";
const OLD_B = "the-old-secret-of-b";
/** Base64 of 24 bytes, as Standard Webhooks has it. */
const STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const A = "provider-a-signature";
const B = "provider-b-signature";

const ENV = {
  PROVIDER_A_SIGNING_SECRET: SECRET_A,
  PROVIDER_B_SIGNING_SECRET: SECRET_B,
};
const STANDARD_ENV = {
  ...ENV,
  PROVIDER_A_SIGNING_SECRET: STANDARD,
  PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
};
const ROTATING = {
  PROVIDER_A_SIGNING_SECRET: `${OLD_A},${SECRET_A}`,
  PROVIDER_B_SIGNING_SECRET: `${OLD_B},${SECRET_B}`,
};
const SWAPPED = {
  ...ENV,
  PROVIDER_A_SIGNATURE_SCHEME: "hmac-sha256-hex",
  PROVIDER_B_SIGNATURE_SCHEME: "stripe",
};
const RENAMED = {
  ...ENV,
  PROVIDER_A_SIGNATURE_HEADER: "Stripe-Signature",
  PROVIDER_B_SIGNATURE_HEADER: "x-signature",
};

interface Options {
  readonly env?: Record<string, string>;
  readonly body?: Uint8Array<ArrayBuffer>;
  readonly nowSeconds?: number;
  readonly toleranceSeconds?: number;
}

async function verify(
  headers: HeadersInit,
  {
    env = ENV,
    body = new TextEncoder().encode(BODY),
    nowSeconds = NOW,
    toleranceSeconds = 300,
  }: Options = {},
): Promise<VerifiedDelivery> {
  return await verifyDelivery({ headers: new Headers(headers), body }, {
    providers: await readProviders(env),
    nowSeconds,
    toleranceSeconds,
  });
}

/** A header of scheme `stripe`. */
function stripe(secret: string, body: string | Uint8Array = BODY): string {
  return `t=${NOW},v1=${hmacHex(secret, `${NOW}.`, body)}`;
}

const signed = { secret: STANDARD, timestamp: NOW };
const VALID_A = stripe(SECRET_A);
const MAC_B = hmacHex(SECRET_B, BODY);
const OTHER_MAC = hmacHex("another secret", BODY);
const LONG_ENTRY = "v0=".padEnd(4_096 - VALID_A.length - 1, "0");

const ACCEPTED: [
  name: string,
  provider: string,
  headers: HeadersInit,
  options?: Options,
][] = [
  ["Stripe's SDK", "a", {
    [A]: await stripeHeader(BODY, { secret: SECRET_A, timestamp: NOW }),
  }],
  ["the library", "a", standardHeaders(BODY, signed), { env: STANDARD_ENV }],
  ["plain hex", "b", { [B]: MAC_B }],
  ["plain hex at any time", "b", { [B]: MAC_B }, { nowSeconds: 0 }],
  ["plain hex of A", "a", { [A]: hmacHex(SECRET_A, BODY) }, { env: SWAPPED }],
  ["Stripe's scheme of B", "b", { [B]: stripe(SECRET_B) }, { env: SWAPPED }],
  ["bytes of A", "a", { [A]: stripe(SECRET_A, BYTES) }, { body: BYTES }],
  ["bytes of B", "b", { [B]: hmacHex(SECRET_B, BYTES) }, { body: BYTES }],
  ["the last of several", "a", { [A]: `v1=${OTHER_MAC},${VALID_A}` }],
  ["the first of several", "a", { [A]: `${VALID_A},v1=${OTHER_MAC}` }],
  ["the old secret of A", "a", { [A]: stripe(OLD_A) }, { env: ROTATING }],
  ["the new secret of A", "a", { [A]: VALID_A }, { env: ROTATING }],
  ["the old secret of B", "b", { [B]: hmacHex(OLD_B, BODY) }, {
    env: ROTATING,
  }],
  ["the new secret of B", "b", { [B]: MAC_B }, { env: ROTATING }],
  ["A's other header", "a", { "Stripe-Signature": VALID_A }, { env: RENAMED }],
  ["B's other header", "b", { "X-Signature": MAC_B }, { env: RENAMED }],
  ["4 kB", "a", { [A]: `${VALID_A},${LONG_ENTRY}` }],
  ["10 s old, and a fraction", "a", { [A]: VALID_A }, {
    nowSeconds: NOW + 10.999,
    toleranceSeconds: 10,
  }],
  ["10 s ahead", "a", { [A]: VALID_A }, {
    nowSeconds: NOW - 10,
    toleranceSeconds: 10,
  }],
];
Deno.test("verifyDelivery() accepts what the one provider has signed", async () => {
  for (const [name, provider, headers, options] of ACCEPTED) {
    const verified = await verify(headers, options);
    const body = options?.body ?? new TextEncoder().encode(BODY);
    assertEquals([verified.provider, verified.body], [provider, body], name);
  }
});

const REFUSED: [
  name: string,
  code: ErrorCode,
  headers: HeadersInit,
  options?: Options,
][] = [
  ["nothing", "signature_missing", {}],
  ["a token", "signature_missing", { authorization: `Bearer ${SECRET_A}` }],
  ["no secrets", "signature_missing", {}, { env: {} }],
  ["a header of neither", "signature_missing", { "stripe-signature": VALID_A }],
  ["A's default header", "signature_missing", { [A]: VALID_A }, {
    env: RENAMED,
  }],
  ["B's default header", "signature_missing", { [B]: MAC_B }, { env: RENAMED }],
  ["both", "signature_ambiguous", { [A]: VALID_A, [B]: MAC_B }],
  ["both, one empty", "signature_ambiguous", { [A]: VALID_A, [B]: "" }],
  ["both, the other empty", "signature_ambiguous", { [A]: "", [B]: MAC_B }],
  ["another scheme", "signature_malformed", { [A]: MAC_B }],
  ["no signature in it", "signature_malformed", { [A]: `t=${NOW}` }],
  ["only malformed ones", "signature_malformed", { [A]: `t=${NOW},v1=zz` }],
  ["over 4 kB", "signature_malformed", { [A]: `${VALID_A},${LONG_ENTRY}0` }],
  ["another body", "signature_mismatch", { [A]: VALID_A }, { body: BYTES }],
  ["no byte order mark", "signature_mismatch", {
    [B]: hmacHex(SECRET_B, BYTES),
  }, {
    body: BYTES.slice(3),
  }],
  ["B's secret for A", "signature_mismatch", { [A]: stripe(SECRET_B) }],
  ["A's secret for B", "signature_mismatch", { [B]: hmacHex(SECRET_A, BODY) }],
  ["A's MAC for B", "signature_mismatch", { [B]: VALID_A.slice(-64) }],
  ["another secret", "signature_mismatch", { [B]: OTHER_MAC }],
  ...["whsec_", `${OLD_A}er`, "", `${OLD_A},${SECRET_A}`].map((
    secret,
  ): (typeof REFUSED)[number] => [
    `the secret ${secret}`,
    "signature_mismatch",
    { [A]: stripe(secret) },
    { env: ROTATING },
  ]),
  ["11 s old", "signature_too_old", { [A]: VALID_A }, {
    nowSeconds: NOW + 11,
    toleranceSeconds: 10,
  }],
  ["over 10 s ahead", "signature_too_far_ahead", { [A]: VALID_A }, {
    nowSeconds: NOW - 10.001,
    toleranceSeconds: 10,
  }],
  ["no secret of A", "provider_misconfigured", { [A]: VALID_A }, {
    env: { ...ENV, PROVIDER_A_SIGNING_SECRET: "" },
  }],
];
Deno.test("verifyDelivery() refuses anything else, names the provider, and repeats no secret", async () => {
  const known = /^provider_|_malformed$|_mismatch$|_too_/;
  for (const [name, code, headers, options] of REFUSED) {
    const error = await assertRejects(
      () => verify(headers, options),
      DeliveryError,
    );
    const { message, logFields } = error;
    assertEquals(error.code, code, name);
    const status = code === "provider_misconfigured" ? 500 : 401;
    assertEquals(ANSWERS[error.code].status, status, name);
    const provider = new Headers(headers).has(A) ? "a" : "b";
    assertEquals(logFields, known.test(code) ? { provider } : {}, name);
    for (const secret of [OTHER_MAC, VALID_A.slice(-64), SECRET_A, SECRET_B]) {
      assert(!message.includes(secret), message);
    }
  }
});

Deno.test("verifyDelivery() is the only maker of a VerifiedDelivery", async () => {
  // @ts-expect-error The brand has no name outside its module.
  const forged: VerifiedDelivery = { provider: "a", mode: "any", body: BYTES };
  assertEquals(forged.provider, "a");
  const env = { ...ENV, PROVIDER_B_MODE: "live" };
  assertEquals((await verify({ [B]: MAC_B }, { env })).mode, "live");
});
