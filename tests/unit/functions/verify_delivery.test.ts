import { assertEquals, assertRejects } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
  ERRORS,
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
const settings = (changes: Record<string, string>) => {
  return { env: { ...ENV, ...changes } };
};
const standard = settings({
  PROVIDER_A_SIGNING_SECRET: STANDARD,
  PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
});
const rotating = settings({
  PROVIDER_A_SIGNING_SECRET: `${OLD_A},${SECRET_A}`,
  PROVIDER_B_SIGNING_SECRET: `${OLD_B},${SECRET_B}`,
});
const swapped = settings({
  PROVIDER_A_SIGNATURE_SCHEME: "hmac-sha256-hex",
  PROVIDER_B_SIGNATURE_SCHEME: "stripe",
});
const renamed = settings({
  PROVIDER_A_SIGNATURE_HEADER: "Stripe-Signature",
  PROVIDER_B_SIGNATURE_HEADER: "x-signature",
});
const misconfigured = settings({ PROVIDER_A_SIGNING_SECRET: "" });

const DEFAULTS = {
  env: ENV as Record<string, string>,
  body: new TextEncoder().encode(BODY),
  nowSeconds: NOW,
  toleranceSeconds: 300,
};
type Options = Partial<typeof DEFAULTS>;

async function verify(headers: HeadersInit, options: Options = {}) {
  const { env, body, ...limits } = { ...DEFAULTS, ...options };
  const delivery = { headers: new Headers(headers), body };
  const providers = await readProviders(env);
  return await verifyDelivery(delivery, { providers, ...limits });
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

const BOM = { body: BYTES };
const at = (s: number) => ({ nowSeconds: NOW + s, toleranceSeconds: 10 });

type Case = [headers: Record<string, string>, options?: Options];
const ACCEPTED: Record<"a" | "b", Case[]> = {
  a: [
    [{ [A]: await stripeHeader(BODY, { secret: SECRET_A, timestamp: NOW }) }],
    [standardHeaders(BODY, signed), standard],
    [{ [A]: hmacHex(SECRET_A, BODY) }, swapped],
    [{ [A]: stripe(SECRET_A, BYTES) }, BOM],
    [{ [A]: `v1=${OTHER_MAC},${VALID_A}` }],
    [{ [A]: `${VALID_A},v1=${OTHER_MAC}` }],
    [{ [A]: `${VALID_A},${LONG_ENTRY}` }],
    [{ [A]: stripe(OLD_A) }, rotating],
    [{ [A]: VALID_A }, rotating],
    [{ "Stripe-Signature": VALID_A }, renamed],
    [{ [A]: VALID_A }, at(10.999)],
    [{ [A]: VALID_A }, at(-10)],
  ],
  b: [
    [{ [B]: MAC_B }],
    [{ [B]: MAC_B }, { nowSeconds: 0 }],
    [{ [B]: stripe(SECRET_B) }, swapped],
    [{ [B]: hmacHex(SECRET_B, BYTES) }, BOM],
    [{ [B]: hmacHex(OLD_B, BODY) }, rotating],
    [{ [B]: MAC_B }, rotating],
    [{ "X-Signature": MAC_B }, renamed],
  ],
};
Deno.test("verifyDelivery() accepts what one provider has signed", async () => {
  for (const [provider, cases] of Object.entries(ACCEPTED)) {
    for (const [headers, options] of cases) {
      const name = JSON.stringify([headers, options]);
      const verified = await verify(headers, options);
      const { body } = { ...DEFAULTS, ...options };
      assertEquals([verified.provider, verified.body], [provider, body], name);
    }
  }
});

const REFUSED: Partial<Record<ErrorCode, Case[]>> = {
  signature_missing: [
    [{}],
    [{}, { env: {} }],
    [{ authorization: `Bearer ${SECRET_A}` }],
    [{ "stripe-signature": VALID_A }],
    [{ [A]: VALID_A }, renamed],
    [{ [B]: MAC_B }, renamed],
  ],
  signature_ambiguous: [
    [{ [A]: VALID_A, [B]: MAC_B }],
    [{ [A]: VALID_A, [B]: "" }],
    [{ [A]: "", [B]: MAC_B }],
  ],
  signature_malformed: [
    [{ [A]: MAC_B }],
    [{ [A]: `t=${NOW}` }],
    [{ [A]: `t=${NOW},v1=zz` }],
    [{ [A]: `${VALID_A},${LONG_ENTRY}0` }],
  ],
  signature_mismatch: [
    [{ [A]: VALID_A }, BOM],
    [{ [B]: hmacHex(SECRET_B, BYTES) }, { body: BYTES.slice(3) }],
    // Another secret, the other provider's, and parts of a list.
    [{ [B]: OTHER_MAC }],
    [{ [A]: stripe(SECRET_B) }],
    [{ [B]: hmacHex(SECRET_A, BODY) }],
    [{ [B]: VALID_A.slice(-64) }],
    ...["whsec_", `${OLD_A}er`, "", `${OLD_A},${SECRET_A}`]
      .map((secret): Case => [{ [A]: stripe(secret) }, rotating]),
  ],
  signature_too_old: [[{ [A]: VALID_A }, at(11)]],
  signature_too_far_ahead: [[{ [A]: VALID_A }, at(-10.001)]],
  provider_misconfigured: [[{ [A]: VALID_A }, misconfigured]],
};
Deno.test("verifyDelivery() refuses anything else, names the provider, and repeats no secret", async () => {
  const secrets = [OTHER_MAC, VALID_A.slice(-64), SECRET_A, SECRET_B];
  for (const [code, cases] of Object.entries(REFUSED)) {
    for (const [headers, options] of cases) {
      const name = JSON.stringify([headers, options]);
      const work = () => verify(headers, options);
      const error = await assertRejects(work, DeliveryError);
      assertEquals<string>(error.code, code, name);
      const status = code === "provider_misconfigured" ? 500 : 401;
      assertEquals(ERRORS[error.code].status, status, name);
      const provider = { provider: A in headers ? "a" : "b" };
      const isKnown = !/_missing|_ambiguous/.test(code);
      assertEquals(error.logFields, isKnown ? provider : {}, name);
      const repeated = secrets.filter((one) => error.message.includes(one));
      assertEquals(repeated, [], error.message);
    }
  }
});

Deno.test("verifyDelivery() is the only maker of a VerifiedDelivery", async () => {
  // @ts-expect-error The brand has no name outside its module.
  const forged: VerifiedDelivery = { provider: "a", mode: "any", body: BYTES };
  assertEquals(forged.provider, "a");
  const live = settings({ PROVIDER_B_MODE: "live" });
  assertEquals((await verify({ [B]: MAC_B }, live)).mode, "live");
});
