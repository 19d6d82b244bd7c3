import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  readProviders,
  SCHEMES,
} from "../../../supabase/functions/billing-webhook/signatures/providers.ts";
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
  const options = { providers, nowSeconds: 17.999, toleranceSeconds: 10 };
  try {
    const verified = await verifyDelivery(delivery, options);
    assertEquals(verified.body, BODY);
    return `${verified.provider}, ${verified.mode}`;
  } catch (error) {
    assert(error instanceof DeliveryError);
    const isTelling = /whsec_|[0-9a-f]{64}|secret-of/.test(error.message);
    assertEquals(isTelling, false, error.message);
    return `${error.code}, ${error.logFields["provider"]}`;
  }
}

const OTHER = "f".repeat(64);
const toBase64 = (hex: string) => Buffer.from(hex, "hex").toString("base64");

/**
 * The headers of a delivery to provider A. H stands for its signature, O for
 * another one, U for H in upper case, X for H in the other encoding, and L for H
 * with bits that mean nothing. Standard Webhooks has id and time before it.
 */
function headersOf(scheme: TestedScheme, text: string): Env {
  const [signature = "", seconds, id = ""] = text.split("|").reverse();
  const time = seconds ?? /t=(\d+)/.exec(text)?.[1] ?? "";
  const mac = macOf(scheme, BODY, { secret: SECRET_A, time, id });
  const isStandard = scheme === "standard-webhooks";
  const other = isStandard ? toBase64(OTHER) : OTHER;
  const value = signature.replace(/[HOUXL]/g, (letter) =>
    ({
      H: mac,
      O: other,
      U: mac.toUpperCase(),
      X: toBase64(mac),
      L: mac.replace(/.=$/, (end) => end === "A=" ? "B=" : "/="),
    })[letter] ?? "");
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
const VALID = "t=17,v1=H";
/** Padded with an entry of another version; the signature has 64 characters. */
const long = (length: number) => `${VALID},v0=`.padEnd(length - 63, "0");
const times = (template: string, ...texts: string[]) =>
  texts.map((text) => template.replace("_", text));
const LONGEST = "i".repeat(255);

const HEADERS: [TestedScheme, ...[expected: string, ...headers: string[]][]][] =
  [
    [
      "stripe",
      [GOOD, VALID, "v1=H,t=17", "t=17,v1=U", "t=017,v1=H", long(4_096)],
      [GOOD, "t=17,v0=O,v1=H,v10=O,=x", `t=17,${"v0=O,".repeat(20)}v1=H`],
      // One that is malformed is not verified; it is looked at all the same.
      [GOOD, "t=17,v1=,v1=zz,v1=H0,v1=0xH,v1=H", "t=17,v1=O,v1=H,v1=O"],
      [GOOD, `t=17,${"v1=O,".repeat(7)}v1=H`, "t=7,v1=H", "t=27,v1=H"],
      [MISMATCH, `t=17,${"v1=O,".repeat(8)}v1=H`, "t=17,v1=O"],
      [OLD, "t=6,v1=H"],
      [AHEAD, "t=28,v1=H", "t=9999999999,v1=H"],
      [MALFORMED, "", "v1=H", "t=17,v1=H,", "t=17,v1=H,x", "t=17, v1=H"],
      [MALFORMED, `${VALID}, ${VALID}`, "t=17,t=17,v1=H", "t=17,v1=H,t="],
      [MALFORMED, ...times("t=_,v1=H", "", "+1", "1e1")],
      [MALFORMED, "t=1.5,v1=H", "t=11111111111,v1=H", "t=17", long(4_097)],
      [MALFORMED, `t=17,${"v1=,".repeat(8)}v1=H`],
    ],
    [
      "hmac-sha256-hex",
      [GOOD, "H", "U"],
      [MISMATCH, "O"],
      [MALFORMED, "", "H0", "0H", "0xH", "H, H", "sha256=H", "X"],
      [MALFORMED, `g${OTHER.slice(1)}`, `${OTHER.slice(1)}g`, OTHER.slice(1)],
    ],
    [
      "standard-webhooks",
      [GOOD, "m|17|v1,H", `m|17|v1a,x ${"v2,x ".repeat(20)}v1,H`, "m|017|v1,H"],
      [GOOD, "m|17|v1,c2hvcnQ= v1,L v1,H= v1,H", "m|17|v1,O v1,H"],
      [GOOD, `m|17|${"v1,O ".repeat(7)}v1,H`],
      [GOOD, ...times("_|17|v1,H", "!#$%&'*+-/~", LONGEST)],
      [MISMATCH, `m|17|${"v1,O ".repeat(8)}v1,H`],
      [OLD, "m|6|v1,H"],
      [AHEAD, "m|28|v1,H"],
      [MALFORMED, "m|17|v1,L", `m|17|${"v1, ".repeat(8)}v1,H`],
      [MALFORMED, ...times("_|17|v1,H", "", `${LONGEST}i`, "m.1", "m,1")],
      [MALFORMED, ...times("_|17|v1,H", "m 1", "m\u00fc")],
      [MALFORMED, ...times("m|_|v1,H", "", "17.5", "1".repeat(11), "now")],
      [MALFORMED, ...times("m|17|_", "", "H", "v1", "v1,", "v1,H  v1,H")],
      [MALFORMED, ...times("m|17|_", "v1,H, v1,H", "v1,H,v1,H", "v1,H\tv1,H")],
    ],
  ];
Deno.test("verifyDelivery() reads time and signatures of each scheme, and nothing malformed", async () => {
  for (const scheme of SCHEMES.values()) {
    assertEquals(scheme.readClaim(new Headers(), "a-signature"), undefined);
  }
  for (const [scheme, ...rows] of HEADERS) {
    const env = {
      PROVIDER_A_SIGNATURE_SCHEME: scheme,
      PROVIDER_B_MODE: "test",
    };
    for (const [expected, ...texts] of rows) {
      for (const text of texts) {
        const outcome = await outcomeOf(headersOf(scheme, text), env);
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
  ...[`${OLD_A}er`, "", `${OLD_A},${SECRET_A}`]
    .map((secret): [string, Env, Env] => {
      return [MISMATCH, { [A]: signed(secret) }, rotating];
    }),
  [MISCONFIGURED, { [A]: VALID_A }, misconfigured],
  // Stripe's own header needs no setting. Of two accounts, whose secret fits.
  ["a, any", { [S]: VALID_A }],
  [AMBIGUOUS, { [S]: VALID_A, [A]: VALID_A }],
  ["a, any", { [S]: VALID_A }, two],
  ["b, live", { [S]: signed(SECRET_B) }, { ...two, PROVIDER_B_MODE: "live" }],
  ["b, any", { [S]: signed(SECRET_B) }, { ...two, ...misconfigured }],
  // Nobody knows whose it was meant to be.
  ["signature_mismatch, undefined", { [S]: signed(OLD_A) }, two],
  ["provider_misconfigured, undefined", { [S]: signed(OLD_A) }, {
    ...two,
    ...misconfigured,
  }],
  ["provider_misconfigured, undefined", { [S]: signed(OLD_A) }, {
    ...two,
    PROVIDER_B_SIGNING_SECRET: "",
  }],
  ["a, any", { [P]: `ts=17;h1=${OTHER};${H1}` }, paddle],
  ...[`t=17;${H1}`, `ts=17,${H1}`, `ts=17;${H1},ts=17;${H1}`, `ts=17; ${H1}`]
    .map((value): [string, Env, Env] => [MALFORMED, { [P]: value }, paddle]),
  [MISCONFIGURED, { [S]: VALID_A }, { PROVIDER_A_SIGNATURE_SCHEME: "x" }],
  [MISSING, { [S]: VALID_A }, { PROVIDER_B_SIGNATURE_HEADER: "x-sig", ...hex }],
];
// @ts-expect-error Only verifyDelivery() can make one: the brand has no name.
const FORGED: VerifiedDelivery = { provider: "a", mode: "any", body: BODY };
Deno.test("verifyDelivery() finds who has signed, by which of its secrets", async () => {
  for (const [expected, headers, env] of DELIVERIES) {
    const outcome = await outcomeOf(headers, env);
    assertEquals(outcome, expected, JSON.stringify([headers, env]));
  }
  assert(FORGED);
});
