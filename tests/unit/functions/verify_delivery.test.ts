import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  readProviders,
  SCHEMES,
} from "../../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import {
  type VerifiedDelivery,
  verifyDelivery,
} from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { hmacHex, macOf, type TestedScheme } from "../../support/sign.ts";

// A byte order mark, and a byte that UTF-8 does not have.
const BODY = new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d, 0xff, 0x00]);
/** Of Standard Webhooks too: base64 of 24 bytes. */
const SECRET_A = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECRET_B = "whsec_unit-test-of-prövider-b";
const OLD_A = "whsec_the-old-secret-of-a";
const A = "provider-a-signature";
const B = "provider-b-signature";

type Env = Record<string, string>;

async function outcomeOf(headers: Env, env: Env = {}): Promise<string> {
  const providers = await readProviders({
    PROVIDER_A_SIGNING_SECRET: SECRET_A,
    PROVIDER_B_SIGNING_SECRET: SECRET_B,
    ...env,
  });
  const delivery = { headers: new Headers(headers), body: BODY };
  try {
    const verified = await verifyDelivery(delivery, {
      providers,
      nowSeconds: 17.999,
      toleranceSeconds: 10,
    });
    assertEquals(verified.body, BODY);
    return `${verified.provider}, ${verified.reading.mode}`;
  } catch (error) {
    assert(error instanceof DeliveryError);
    assertEquals(
      /whsec_|[0-9a-f]{64}|secret-of/.test(error.message),
      false,
      error.message,
    );
    return `${error.code}, ${error.logFields["provider"]}`;
  }
}

const OTHER = "f".repeat(64);
const toBase64 = (hex: string) => Buffer.from(hex, "hex").toString("base64");

/**
 * Returns the headers of a delivery to provider A. MAC stands for its signature, OTHER
 * for that of something else, and UPPER, RECODED and LOOSE for MAC in upper case, in
 * the other encoding, and with bits that mean nothing. With Standard Webhooks, the
 * ID and the time come before it.
 */
function headersOf(scheme: TestedScheme, text: string): Env {
  const [signature = "", seconds, id = ""] = text.split("|").reverse();
  const time = seconds ?? /t=(\d+)/.exec(text)?.[1] ?? "";
  const mac = macOf(scheme, BODY, { secret: SECRET_A, time, id });
  const isStandard = scheme === "standard-webhooks";
  const meanings: Env = {
    MAC: mac,
    OTHER: isStandard ? toBase64(OTHER) : OTHER,
    UPPER: mac.toUpperCase(),
    RECODED: toBase64(mac),
    LOOSE: mac.replace(/.=$/, (end) => end === "A=" ? "B=" : "/="),
  };
  const value = signature.replace(/[A-Z]{3,}/g, (word) => meanings[word]!);
  return isStandard
    ? {
      "webhook-id": id,
      "webhook-timestamp": time,
      "webhook-signature": value,
    }
    : { [A]: value };
}

const GOOD = "a, any";
const MALFORMED = "signature_malformed, a";
const MISMATCH = "signature_mismatch, a";
const OLD = "signature_too_old, a";
const AHEAD = "signature_too_far_ahead, a";
const VALID = "t=17,v1=MAC";
/** Padded with an entry of another version; the signature has 64 characters. */
const long = (length: number) => `${VALID},v0=`.padEnd(length - 61, "0");
const LONGEST = "i".repeat(255);

type Outcomes = [expected: string, ...headers: string[]][];

const HEADERS: Record<TestedScheme, Outcomes> = {
  "stripe": [
    [
      GOOD,
      VALID,
      "v1=MAC,t=17",
      "t=17,v1=UPPER",
      "t=017,v1=MAC",
      long(4_096),
      "t=17,v0=OTHER,v1=MAC,v10=OTHER,=x",
      `t=17,${"v0=OTHER,".repeat(20)}v1=MAC`,
      // One that is malformed is not verified; it is looked at all the same.
      "t=17,v1=,v1=zz,v1=MAC0,v1=0xMAC,v1=MAC",
      "t=17,v1=OTHER,v1=MAC,v1=OTHER",
      `t=17,${"v1=OTHER,".repeat(7)}v1=MAC`,
      "t=7,v1=MAC",
      "t=27,v1=MAC",
    ],
    [MISMATCH, `t=17,${"v1=OTHER,".repeat(8)}v1=MAC`, "t=17,v1=OTHER"],
    [OLD, "t=6,v1=MAC"],
    [AHEAD, "t=28,v1=MAC", "t=9999999999,v1=MAC"],
    [
      MALFORMED,
      "",
      "v1=MAC",
      "t=17,v1=MAC,",
      "t=17,v1=MAC,x",
      "t=17, v1=MAC",
      `${VALID}, ${VALID}`,
      "t=17,t=17,v1=MAC",
      "t=17,v1=MAC,t=",
      "t=,v1=MAC",
      "t=+1,v1=MAC",
      "t=1e1,v1=MAC",
      "t=1.5,v1=MAC",
      "t=11111111111,v1=MAC",
      "t=17",
      long(4_097),
      `t=17,${"v1=,".repeat(8)}v1=MAC`,
    ],
  ],
  "hmac-sha256-hex": [
    [GOOD, "MAC", "UPPER"],
    [MISMATCH, "OTHER"],
    [
      MALFORMED,
      "",
      "MAC0",
      "0MAC",
      "0xMAC",
      "MAC, MAC",
      "sha256=MAC",
      "RECODED",
      `g${OTHER.slice(1)}`,
      `${OTHER.slice(1)}g`,
      OTHER.slice(1),
    ],
  ],
  "standard-webhooks": [
    [
      GOOD,
      "m|17|v1,MAC",
      `m|17|v1a,x ${"v2,x ".repeat(20)}v1,MAC`,
      "m|017|v1,MAC",
      "m|17|v1,c2hvcnQ= v1,LOOSE v1,MAC= v1,MAC",
      "m|17|v1,OTHER v1,MAC",
      `m|17|${"v1,OTHER ".repeat(7)}v1,MAC`,
      "!#$%&'*+-/~|17|v1,MAC",
      `${LONGEST}|17|v1,MAC`,
    ],
    [MISMATCH, `m|17|${"v1,OTHER ".repeat(8)}v1,MAC`],
    [OLD, "m|6|v1,MAC"],
    [AHEAD, "m|28|v1,MAC"],
    [
      MALFORMED,
      "m|17|v1,LOOSE",
      `m|17|${"v1, ".repeat(8)}v1,MAC`,
      "|17|v1,MAC",
      `${LONGEST}i|17|v1,MAC`,
      "m.1|17|v1,MAC",
      "m,1|17|v1,MAC",
      "m 1|17|v1,MAC",
      "m\u00fc|17|v1,MAC",
      "m||v1,MAC",
      "m|17.5|v1,MAC",
      "m|11111111111|v1,MAC",
      "m|now|v1,MAC",
      "m|17|",
      "m|17|MAC",
      "m|17|v1",
      "m|17|v1,",
      "m|17|v1,MAC  v1,MAC",
      "m|17|v1,MAC, v1,MAC",
      "m|17|v1,MAC,v1,MAC",
      "m|17|v1,MAC\tv1,MAC",
    ],
  ],
};
Deno.test("verifyDelivery() reads each scheme, and nothing malformed", async () => {
  for (const scheme of SCHEMES.values()) {
    assertEquals(scheme.readClaim(new Headers(), "a-signature"), undefined);
  }

  for (const [scheme, outcomes] of Object.entries(HEADERS)) {
    const env = {
      PROVIDER_A_SIGNATURE_SCHEME: scheme,
      PROVIDER_B_MODE: "test",
    };
    for (const [expected, ...texts] of outcomes) {
      for (const text of texts) {
        const headers = headersOf(scheme as TestedScheme, text);
        const outcome = await outcomeOf(headers, env);
        assertEquals(outcome, expected, `${scheme}: ${text}`);
      }
    }
  }
});

const none = { time: "", id: "" };
const signed = (secret: string) =>
  `t=17,v1=${macOf("stripe", BODY, { secret, ...none, time: "17" })}`;
const VALID_A = signed(SECRET_A);
const MAC_B = macOf("hmac-sha256-hex", BODY, { secret: SECRET_B, ...none });
const rotating = { PROVIDER_A_SIGNING_SECRET: `${OLD_A},${SECRET_A}` };
const renamed = { PROVIDER_A_SIGNATURE_HEADER: "Stripe-Signature" };
const misconfigured = { PROVIDER_A_SIGNING_SECRET: "" };
const two = { PROVIDER_B_SIGNATURE_SCHEME: "stripe" };
const hex = { PROVIDER_A_SIGNATURE_SCHEME: "hmac-sha256-hex" };
const S = "stripe-signature";
const STRAY = { [S]: signed(OLD_A) };
const paddle = { PROVIDER_A_SIGNATURE_SCHEME: "paddle" };
const P = "paddle-signature";
const H1 = `h1=${hmacHex(SECRET_A, "17:", BODY)}`;
const MISCONFIGURED = "provider_misconfigured, a";
const MISSING = "signature_missing, undefined";
const AMBIGUOUS = "signature_ambiguous, undefined";

const DELIVERIES: [expected: string, headers: Env, env?: Env][] = [
  ["b, any", { [B]: MAC_B }],
  ["b, live", { [B]: MAC_B }, { PROVIDER_B_MODE: "live" }],
  ["a, any", { [A]: signed(OLD_A) }, rotating],
  ["a, any", { [A]: VALID_A }, rotating],
  ["a, any", { "Stripe-Signature": VALID_A }, renamed],
  [MISSING, {}],
  [MISSING, { [A]: VALID_A }, renamed],
  [AMBIGUOUS, { [A]: VALID_A, [B]: "" }],
  [AMBIGUOUS, { [A]: "", [B]: MAC_B }],
  [MALFORMED, { [A]: MAC_B }],
  // The other provider's secret or scheme, and parts of a list.
  [MISMATCH, { [A]: signed(SECRET_B) }],
  ["signature_mismatch, b", { [B]: VALID_A.slice(-64) }],
  [MISMATCH, { [A]: signed(`${OLD_A}er`) }, rotating],
  [MISMATCH, { [A]: signed("") }, rotating],
  [MISMATCH, { [A]: signed(`${OLD_A},${SECRET_A}`) }, rotating],
  [MISCONFIGURED, { [A]: VALID_A }, misconfigured],
  // Stripe's own header needs no setting. Of two accounts, whose secret fits.
  ["a, any", { [S]: VALID_A }],
  [AMBIGUOUS, { [S]: VALID_A, [A]: VALID_A }],
  ["a, any", { [S]: VALID_A }, two],
  ["b, live", { [S]: signed(SECRET_B) }, { ...two, PROVIDER_B_MODE: "live" }],
  ["b, any", { [S]: signed(SECRET_B) }, { ...two, ...misconfigured }],
  // It may have been meant for either.
  ["signature_mismatch, undefined", STRAY, two],
  ["provider_misconfigured, undefined", STRAY, { ...two, ...misconfigured }],
  ["provider_misconfigured, undefined", STRAY, {
    ...two,
    PROVIDER_B_SIGNING_SECRET: "",
  }],
  ["a, any", { [P]: `ts=17;h1=${OTHER};${H1}` }, paddle],
  [MALFORMED, { [P]: `t=17;${H1}` }, paddle],
  [MALFORMED, { [P]: `ts=17,${H1}` }, paddle],
  [MALFORMED, { [P]: `ts=17;${H1},ts=17;${H1}` }, paddle],
  [MALFORMED, { [P]: `ts=17; ${H1}` }, paddle],
  [MISCONFIGURED, { [S]: VALID_A }, { PROVIDER_A_SIGNATURE_SCHEME: "x" }],
  [MISSING, { [S]: VALID_A }, { PROVIDER_B_SIGNATURE_HEADER: "x-sig", ...hex }],
];
// @ts-expect-error Only verifyDelivery() can make one: the brand has no name.
const FORGED: VerifiedDelivery = { provider: "a", body: BODY };
Deno.test("verifyDelivery() finds who has signed, by which of its secrets", async () => {
  for (const [expected, headers, env] of DELIVERIES) {
    const outcome = await outcomeOf(headers, env);
    assertEquals(outcome, expected, JSON.stringify([headers, env]));
  }
  assert(FORGED);
});
