import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { Webhook } from "standardwebhooks";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  hmacSha256Hex,
  type SignatureScheme,
  standardWebhooks,
  stripe,
} from "../../../supabase/functions/billing-webhook/schemes.ts";
import {
  type VerifiedDelivery,
  verifyDelivery,
} from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { hmacHex } from "../../support/sign.ts";

const HEX = "0123456789abcdef".repeat(4);
const OTHER = "f".repeat(64);
const toBase64 = (hex: string) => Buffer.from(hex, "hex").toString("base64");

/**
 * Returns what is read of a header: text before the body, time, and letters. In
 * the header, H and O stand for signatures, and U for H in upper case. That of
 * Standard Webhooks has id and time before it.
 */
function read(scheme: SignatureScheme, text: string, prefix = "svix") {
  const encode = scheme === standardWebhooks ? toBase64 : String;
  const [signature = "", time = "", id = ""] = text.split("|").reverse();
  const headers = {
    "svix-id": id,
    "svix-timestamp": time,
    "svix-signature": signature.replaceAll("H", encode(HEX))
      .replaceAll("O", encode(OTHER)).replaceAll("U", HEX.toUpperCase()),
  };
  const claim = scheme.readClaim(new Headers(headers), `${prefix}-signature`);
  const letters = claim?.signatures.map((bytes) => {
    const hex = Buffer.from(bytes).toString("hex");
    return hex === HEX ? "H" : hex === OTHER ? "O" : hex;
  });
  return claim && `${claim.prefix} ${claim.timestamp} ${letters!.join("")}`;
}

const none = undefined;
const LONGEST = "i".repeat(255);
const ODD = "!#$%&'*+-/~";
/** Base64 with bits that mean nothing. */
const LOOSE = toBase64(HEX).replace("8=", "9=");
const noClaim = (texts: string[], template: string): Claim => {
  return [none, ...texts.map((text) => template.replace("_", text))];
};
type Claim = [read: string | undefined, ...headers: string[]];
const CLAIMS: [scheme: SignatureScheme, ...Claim[]][] = [
  [
    stripe,
    ["17. 17 H", "t=17,v1=H", "v1=H,t=17", "t=17,v1=U"],
    ["17. 17 H", "t=17,v0=O,v1=H,v10=O,=x", `t=17,${"v0=O,".repeat(20)}v1=H`],
    ["017. 17 H", "t=017,v1=H"],
    ["9999999999. 9999999999 H", "t=9999999999,v1=H"],
    // One that is malformed is not verified; it is looked at all the same.
    ["17. 17 H", "t=17,v1=,v1=zz,v1=H0,v1=0xH,v1=H"],
    ["17. 17 ", "t=17", `t=17,${"v1=,".repeat(8)}v1=H`],
    ["17. 17 OOOOOOOH", `t=17,${"v1=O,".repeat(7)}v1=H`],
    ["17. 17 OOOOOOOO", `t=17,${"v1=O,".repeat(8)}v1=H`],
    [none, "", "v1=H", "t=17,v1=H,", "t=17,v1=H,x", "t=17, v1=H"],
    [none, "t=17,v1=H, t=17,v1=H", "t=17,t=17,v1=H", "t=17,v1=H,t="],
    noClaim(["", "123abc", "-1", "+1", "1e9", "0x1", "1.5"], "t=_,v1=H"),
    [none, "t=11111111111,v1=H"],
  ],
  [
    hmacSha256Hex,
    [" undefined H", "H", "U"],
    [none, "", "H0", "0xH", "H, H", "sha256=H", HEX.slice(1)],
    [none, `g${HEX.slice(1)}`, toBase64(HEX), `${HEX.slice(1)}g`],
  ],
  [
    standardWebhooks,
    ["m.17. 17 H", "m|17|v1,H", `m|17|v1a,x ${"v2,x ".repeat(20)}v1,H`],
    ["m.17. 17 H", `m|17|v1,c2hvcnQ= v1,${LOOSE} v1,H= v1,H`],
    ["m.17. 17 OH", "m|17|v1,O v1,H"],
    ["m.17. 17 OOOOOOOO", `m|17|${"v1,O ".repeat(8)}v1,H`],
    [`${ODD}.17. 17 H`, `${ODD}|17|v1,H`],
    [`${LONGEST}.17. 17 H`, `${LONGEST}|17|v1,H`],
    noClaim(["", `${LONGEST}i`, "m.1", "m,1", "m 1", "m\u00fc"], "_|17|v1,H"),
    noClaim(["", "17.5", "1".repeat(11), "now"], "m|_|v1,H"),
    noClaim(["", "H", "v1", "v1,", "v1,H  v1,H", "v1,H, v1,H"], "m|17|_"),
    noClaim(["v1,H,v1,H", "v1,H\tv1,H"], "m|17|_"),
  ],
];
Deno.test("readClaim() reads time and signatures of each scheme, and nothing malformed", () => {
  for (const [scheme, ...claims] of CLAIMS) {
    for (const [expected, ...headers] of claims) {
      for (const text of headers) {
        assertEquals(read(scheme, text), expected, text);
        assertEquals(read(scheme, text, "x"), none, "without the header");
      }
    }
  }
});

Deno.test("keyBytes() returns the whole secret, or the bytes after whsec_", () => {
  const text = new TextEncoder();
  for (const { keyBytes } of [stripe, hmacSha256Hex]) {
    assertEquals(keyBytes("whsec_ü"), text.encode("whsec_ü"));
  }
  const { keyBytes } = standardWebhooks;
  for (const length of [16, 17, 18, 64]) {
    const secret = "s".repeat(length);
    assertEquals(keyBytes(`whsec_${btoa(secret)}`), text.encode(secret));
  }
  const good = btoa("s".repeat(17));
  const bad = ["", btoa("15-bytes-secret"), `${good}=`, `${good}\n`];
  bad.push(good.slice(0, -1), `${good.slice(0, -3)}-_=`);
  for (const secret of [good, ...bad.map((text) => `whsec_${text}`)]) {
    const { message } = assertThrows(() => keyBytes(secret), Error);
    assertEquals(message.includes(good.slice(0, 8)), false, message);
  }
});

const NOW = 1_800_000_000;
const BODY = '{ "id": "evt_1",\n  "type":"customer.subscription.deleted" }';
// A byte order mark, and a byte that UTF-8 does not have.
const BYTES = new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d, 0xff, 0x00]);
const SECRET_A = "whsec_unit-test-of-provider-a";
const SECRET_B = "unit-test-of-provider-b";
const OLD_A = "whsec_the-old-secret-of-a";
/** Base64 of 24 bytes, as Standard Webhooks has it. */
const STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const A = "provider-a-signature";
const B = "provider-b-signature";

const DEFAULTS = {
  env: {} as Record<string, string>,
  body: new TextEncoder().encode(BODY),
  nowSeconds: NOW,
  toleranceSeconds: 300,
};
type Options = Partial<typeof DEFAULTS>;

async function verify(headers: HeadersInit, options: Options = {}) {
  const { env, body, ...limits } = { ...DEFAULTS, ...options };
  const providers = await readProviders({
    PROVIDER_A_SIGNING_SECRET: SECRET_A,
    PROVIDER_B_SIGNING_SECRET: SECRET_B,
    ...env,
  });
  const delivery = { headers: new Headers(headers), body };
  return await verifyDelivery(delivery, { providers, ...limits });
}

/** A header of scheme `stripe`. */
function signed(secret: string, body: string | Uint8Array = BODY): string {
  return `t=${NOW},v1=${hmacHex(secret, `${NOW}.`, body)}`;
}

const standard = {
  env: {
    PROVIDER_A_SIGNING_SECRET: STANDARD,
    PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
  },
};
const rotating = {
  env: { PROVIDER_A_SIGNING_SECRET: `${OLD_A},${SECRET_A}` },
};
const renamed = { env: { PROVIDER_A_SIGNATURE_HEADER: "Stripe-Signature" } };
const misconfigured = { env: { PROVIDER_A_SIGNING_SECRET: "" } };
const at = (s: number) => ({ nowSeconds: NOW + s, toleranceSeconds: 10 });

const STANDARD_HEADERS = {
  "webhook-id": "msg_1",
  "webhook-timestamp": String(NOW),
  "webhook-signature": new Webhook(STANDARD)
    .sign("msg_1", new Date(NOW * 1_000), BODY),
};
const VALID_A = signed(SECRET_A);
const MAC_A = VALID_A.slice(-64);
const MAC_B = hmacHex(SECRET_B, BODY);
const LONG_ENTRY = "v0=".padEnd(4_096 - VALID_A.length - 1, "0");

type Case = [headers: Record<string, string>, options?: Options];
const ACCEPTED: Record<"a" | "b", Case[]> = {
  a: [
    [STANDARD_HEADERS, standard],
    [{ [A]: signed(SECRET_A, BYTES) }, { body: BYTES }],
    [{ [A]: `v1=${OTHER},${VALID_A},v1=${OTHER}` }],
    [{ [A]: `${VALID_A},${LONG_ENTRY}` }],
    [{ [A]: signed(OLD_A) }, rotating],
    [{ [A]: VALID_A }, rotating],
    [{ "Stripe-Signature": VALID_A }, renamed],
    [{ [A]: VALID_A }, at(10.999)],
    [{ [A]: VALID_A }, at(-10)],
  ],
  b: [[{ [B]: MAC_B }], [{ [B]: MAC_B }, { nowSeconds: 0 }]],
};
const REFUSED: Partial<Record<ErrorCode, Case[]>> = {
  signature_missing: [[{}], [{ [A]: VALID_A }, renamed]],
  signature_ambiguous: [[{ [A]: VALID_A, [B]: "" }], [{ [A]: "", [B]: MAC_B }]],
  signature_malformed: [
    [{ [A]: MAC_B }],
    [{ [A]: `t=${NOW}` }],
    [{ [A]: `${VALID_A},${LONG_ENTRY}0` }],
  ],
  signature_mismatch: [
    [{ [A]: VALID_A }, { body: BYTES }],
    // The other provider's secret or scheme, and parts of a list.
    [{ [A]: signed(SECRET_B) }],
    [{ [B]: MAC_A }],
    ...[`${OLD_A}er`, "", `${OLD_A},${SECRET_A}`]
      .map((secret): Case => [{ [A]: signed(secret) }, rotating]),
  ],
  signature_too_old: [[{ [A]: VALID_A }, at(11)]],
  signature_too_far_ahead: [[{ [A]: VALID_A }, at(-10.001)]],
  provider_misconfigured: [[{ [A]: VALID_A }, misconfigured]],
};
Deno.test("verifyDelivery() accepts what one provider has signed, names it, and repeats no secret", async () => {
  for (const [provider, cases] of Object.entries(ACCEPTED)) {
    for (const [headers, options] of cases) {
      const name = JSON.stringify([headers, options]);
      const verified = await verify(headers, options);
      const { body } = { ...DEFAULTS, ...options };
      assertEquals([verified.provider, verified.body], [provider, body], name);
    }
  }
  const secrets = [MAC_A, MAC_B, SECRET_A, SECRET_B];
  for (const [code, cases] of Object.entries(REFUSED)) {
    for (const [headers, options] of cases) {
      const work = () => verify(headers, options);
      const { message, ...error } = await assertRejects(work, DeliveryError);
      const isKnown = !/_missing|_ambiguous/.test(code);
      const fields = isKnown ? { provider: A in headers ? "a" : "b" } : {};
      const name = JSON.stringify([headers, options]);
      assertEquals([error.code, error.logFields], [code, fields], name);
      assertEquals(secrets.filter((one) => message.includes(one)), [], message);
    }
  }
});

// @ts-expect-error Only verifyDelivery() can make one: the brand has no name.
const FORGED: VerifiedDelivery = { provider: "a", mode: "any", body: BYTES };
Deno.test("verifyDelivery() states the mode of its provider's endpoint", async () => {
  const live = { env: { PROVIDER_B_MODE: "live" } };
  const { mode } = await verify({ [B]: MAC_B }, live);
  assertEquals([mode, FORGED.mode], ["live", "any"]);
});
