import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import {
  ANSWERS,
  DeliveryError,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  type VerifiedDelivery,
  verifyDelivery,
} from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { hmacHex, standardHeaders, stripeHeader } from "../../support/sign.ts";

const NOW = 1_800_000_000;
const BODY = '{ "id": "evt_1",\n  "type":"customer.subscription.deleted" }';
const SECRET_A = "whsec_unit-test-of-provider-a";
const SECRET_B = "unit-test-of-provider-b";
/** Base64 of 24 bytes, as Standard Webhooks has it. */
const OLD_A = "whsec_the-old-secret-of-a";
const NEW_A = "whsec_the-new-secret-of-a";
const OLD_B = "the-old-secret-of-b";
const SECRET_STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const DEFAULTS = {
  PROVIDER_A_SIGNING_SECRET: SECRET_A,
  PROVIDER_B_SIGNING_SECRET: SECRET_B,
};
const STANDARD = {
  ...DEFAULTS,
  PROVIDER_A_SIGNING_SECRET: SECRET_STANDARD,
  PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
};

interface Case {
  readonly headers: HeadersInit;
  readonly env?: Record<string, string>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly nowSeconds?: number;
  readonly toleranceSeconds?: number;
}

async function verify(
  {
    headers,
    env = DEFAULTS,
    body = BODY,
    nowSeconds = NOW,
    toleranceSeconds = 300,
  }: Case,
): Promise<VerifiedDelivery> {
  const bytes = typeof body === "string"
    ? new TextEncoder().encode(body)
    : body;
  return await verifyDelivery({ headers: new Headers(headers), body: bytes }, {
    providers: await readProviders(env),
    nowSeconds,
    toleranceSeconds,
  });
}

/** Passes when the delivery is refused with the code, and so with a 401. */
async function assertRefused(
  delivery: Case,
  code: DeliveryError["code"],
  message?: string,
): Promise<void> {
  const error = await assertRejects(() => verify(delivery), DeliveryError);
  assertEquals(error.code, code, message);
  assertEquals<unknown>(ANSWERS[error.code], {
    status: 401,
    body: "Invalid signature",
  });
}

/** A header of provider A with the given time as text, and a MAC that fits. */
function signedAt(time: string): string {
  return `t=${time},v1=${hmacHex(SECRET_A, `${time}.`, BODY)}`;
}

const VALID_A = signedAt(String(NOW));
const MAC_A = hmacHex(SECRET_A, `${NOW}.`, BODY);
const MAC_B = hmacHex(SECRET_B, BODY);
const OTHER_MAC = hmacHex("another secret", BODY);

Deno.test("verifyDelivery() accepts what Stripe's SDK signs", async () => {
  const header = await stripeHeader(BODY, { secret: SECRET_A, timestamp: NOW });
  const verified = await verify({
    headers: { "provider-a-signature": header },
  });
  assertEquals(verified.provider, "a");
  assertEquals(new TextDecoder().decode(verified.body), BODY);
});

Deno.test("verifyDelivery() accepts what Standard Webhooks' library signs", async () => {
  const nowSeconds = Math.floor(Date.now() / 1000);
  const headers = standardHeaders(BODY, {
    secret: SECRET_STANDARD,
    timestamp: nowSeconds,
  });
  new Webhook(SECRET_STANDARD).verify(BODY, headers);
  const { provider } = await verify({ headers, env: STANDARD, nowSeconds });
  assertEquals(provider, "a");
});

Deno.test("verifyDelivery() accepts the plain hex HMAC of the body, again and again", async () => {
  const headers = { "provider-b-signature": MAC_B };
  assertEquals((await verify({ headers })).provider, "b");
  assertEquals((await verify({ headers })).provider, "b");
});

Deno.test("verifyDelivery() serves any scheme for either provider", async () => {
  const env = {
    PROVIDER_A_SIGNING_SECRET: SECRET_A,
    PROVIDER_A_SIGNATURE_SCHEME: "hmac-sha256-hex",
    PROVIDER_B_SIGNING_SECRET: SECRET_B,
    PROVIDER_B_SIGNATURE_SCHEME: "stripe",
  };
  const a = { "provider-a-signature": hmacHex(SECRET_A, BODY) };
  assertEquals((await verify({ headers: a, env })).provider, "a");
  const b = await stripeHeader(BODY, { secret: SECRET_B, timestamp: NOW });
  const headers = { "provider-b-signature": b };
  assertEquals((await verify({ headers, env })).provider, "b");

  const standard = {
    ...DEFAULTS,
    PROVIDER_B_SIGNING_SECRET: SECRET_STANDARD,
    PROVIDER_B_SIGNATURE_SCHEME: "standard-webhooks",
  };
  const signed = { secret: SECRET_STANDARD, timestamp: NOW };
  const { provider } = await verify({
    headers: standardHeaders(BODY, signed),
    env: standard,
  });
  assertEquals(provider, "b");
});

Deno.test("verifyDelivery() verifies bytes, not text", async () => {
  // A byte order mark, and a byte that UTF-8 does not have.
  const body = new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d, 0xff, 0x00]);
  for (
    const headers of [
      {
        "provider-a-signature": `t=${NOW},v1=${
          hmacHex(SECRET_A, `${NOW}.`, body)
        }`,
      },
      { "provider-b-signature": hmacHex(SECRET_B, body) },
    ]
  ) {
    const verified = await verify({ headers, body });
    assertEquals([...verified.body], [...body]);
    await assertRefused(
      { headers, body: body.slice(3) },
      "signature_mismatch",
    );
  }
});

Deno.test("verifyDelivery() rejects a delivery without a signature header", async () => {
  const others: HeadersInit[] = [
    {},
    { "stripe-signature": VALID_A },
    { "authorization": `Bearer ${SECRET_A}` },
    { "webhook-id": "msg_1", "webhook-timestamp": String(NOW) },
  ];
  for (const headers of others) {
    await assertRefused({ headers }, "signature_missing");
    await assertRefused({ headers, env: {} }, "signature_missing");
  }
});

Deno.test("verifyDelivery() rejects the headers of both providers at once", async () => {
  for (const b of [MAC_B, "", "rubbish"]) {
    await assertRefused({
      headers: { "provider-a-signature": VALID_A, "provider-b-signature": b },
    }, "signature_ambiguous");
  }
  await assertRefused({
    headers: { "provider-a-signature": "", "provider-b-signature": MAC_B },
  }, "signature_ambiguous");
});

Deno.test("verifyDelivery() rejects one provider's signature under the other's name", async () => {
  await assertRefused(
    {
      headers: {
        "provider-a-signature": `t=${NOW},v1=${
          hmacHex(SECRET_B, `${NOW}.`, BODY)
        }`,
      },
    },
    "signature_mismatch",
  );
  await assertRefused(
    { headers: { "provider-b-signature": hmacHex(SECRET_A, BODY) } },
    "signature_mismatch",
  );
  await assertRefused(
    { headers: { "provider-b-signature": MAC_A } },
    "signature_mismatch",
  );
});

Deno.test("verifyDelivery() accepts one valid signature among others", async () => {
  const headers = [
    `t=${NOW},v1=${MAC_A},v1=${OTHER_MAC}`,
    `t=${NOW},v1=${OTHER_MAC},v1=${MAC_A}`,
    `t=${NOW},v0=${OTHER_MAC},v1=${MAC_A}`,
    `v1=${MAC_A},t=${NOW}`,
    // One that is malformed is just not verified.
    `t=${NOW},v1=,v1=${MAC_A}`,
    `t=${NOW},v1=zz,v1=${MAC_A}`,
  ];
  for (const header of headers) {
    await verify({ headers: { "provider-a-signature": header } });
  }

  const valid = standardHeaders(BODY, {
    secret: SECRET_STANDARD,
    timestamp: NOW,
  });
  const signature = valid["webhook-signature"]!;
  for (
    const list of [
      `${signature} v1,${hexToBase64(OTHER_MAC)}`,
      `v1,${hexToBase64(OTHER_MAC)} ${signature}`,
      `v1a,${hexToBase64(OTHER_MAC)} ${signature}`,
      `v1,c2hvcnQ= ${signature}`,
    ]
  ) {
    await verify({
      headers: { ...valid, "webhook-signature": list },
      env: STANDARD,
    });
  }
});

Deno.test("verifyDelivery() does not count signatures of other versions", async () => {
  const others = `v0=${OTHER_MAC},`.repeat(20);
  const header = `t=${NOW},${others}v1=${MAC_A}`;
  await verify({ headers: { "provider-a-signature": header } });

  const valid = standardHeaders(BODY, {
    secret: SECRET_STANDARD,
    timestamp: NOW,
  });
  const list = `v1a,${hexToBase64(OTHER_MAC)} `.repeat(20);
  await verify({
    headers: {
      ...valid,
      "webhook-signature": `${list}${valid["webhook-signature"]}`,
    },
    env: STANDARD,
  });
});

Deno.test("verifyDelivery() takes the tolerance as configured, in whole seconds", async () => {
  const at = (nowSeconds: number) => ({
    headers: { "provider-a-signature": VALID_A },
    toleranceSeconds: 10,
    nowSeconds,
  });
  await verify(at(NOW + 10.999));
  await assertRefused(at(NOW + 11), "signature_too_old");
  await verify(at(NOW - 10));
  await assertRefused(at(NOW - 10.001), "signature_too_far_ahead");
});

Deno.test("verifyDelivery() names the provider for the log, once a header tells which", async () => {
  for (
    const [env, header, nowSeconds] of [
      [DEFAULTS, VALID_A, NOW + 301],
      [DEFAULTS, VALID_A, NOW - 301],
      [DEFAULTS, `t=${NOW},v1=${OTHER_MAC}`, NOW],
      [DEFAULTS, "v1=x", NOW],
      [{ ...DEFAULTS, PROVIDER_A_SIGNING_SECRET: "" }, VALID_A, NOW],
    ] as const
  ) {
    const headers = { "provider-a-signature": header };
    const { code, logFields } = await assertRejects(
      () => verify({ headers, env, nowSeconds }),
      DeliveryError,
    );
    assertEquals(logFields, { provider: "a" }, code);
  }
});

Deno.test("verifyDelivery() asks the plain scheme for no time", async () => {
  await verify({ headers: { "provider-b-signature": MAC_B }, nowSeconds: 0 });
});

Deno.test("verifyDelivery() accepts each of several secrets", async () => {
  const env = {
    PROVIDER_A_SIGNING_SECRET: `${OLD_A},${SECRET_A},${NEW_A}`,
    PROVIDER_B_SIGNING_SECRET: `${OLD_B},${SECRET_B}`,
  };
  for (const secret of [OLD_A, SECRET_A, NEW_A]) {
    const header = await stripeHeader(BODY, { secret, timestamp: NOW });
    await verify({ headers: { "provider-a-signature": header }, env });
  }
  for (const secret of [OLD_B, SECRET_B]) {
    const headers = { "provider-b-signature": hmacHex(secret, BODY) };
    await verify({ headers, env });
  }
  for (const secret of ["whsec_", `${OLD_A}er`, "", `${OLD_A},${SECRET_A}`]) {
    const mac = hmacHex(secret, `${NOW}.`, BODY);
    await assertRefused({
      headers: { "provider-a-signature": `t=${NOW},v1=${mac}` },
      env,
    }, "signature_mismatch");
  }
});

Deno.test("verifyDelivery() reads the header that is configured, and only that", async () => {
  const env = {
    ...DEFAULTS,
    PROVIDER_A_SIGNATURE_HEADER: "Stripe-Signature",
    PROVIDER_B_SIGNATURE_HEADER: "x-signature",
  };
  await verify({ headers: { "Stripe-Signature": VALID_A }, env });
  await verify({ headers: { "X-Signature": MAC_B }, env });
  await assertRefused(
    { headers: { "provider-a-signature": VALID_A }, env },
    "signature_missing",
  );
  await assertRefused(
    { headers: { "provider-b-signature": MAC_B }, env },
    "signature_missing",
  );
});

Deno.test("verifyDelivery() reads id and time under the prefix of the signature header", async () => {
  const env = { ...STANDARD, PROVIDER_A_SIGNATURE_HEADER: "svix-signature" };
  const signed = { secret: SECRET_STANDARD, timestamp: NOW };
  const svix = standardHeaders(BODY, { ...signed, prefix: "svix" });
  await verify({ headers: svix, env });

  const { "svix-signature": signature } = svix;
  await assertRefused({
    headers: {
      ...standardHeaders(BODY, signed),
      "svix-signature": signature!,
    },
    env,
  }, "signature_malformed");
  await assertRefused(
    { headers: standardHeaders(BODY, signed), env },
    "signature_missing",
  );
});

Deno.test("verifyDelivery() throws nothing but its own errors, whatever a header holds", async () => {
  const fragment = fc.oneof(
    fc.constantFrom(
      "t=",
      `t=${NOW}`,
      "v1=",
      "v0=",
      "v1",
      "v1,",
      "v1a,",
      ",",
      ", ",
      " ",
      "=",
      MAC_A,
      MAC_B.slice(1),
      hexToBase64(OTHER_MAC),
    ),
    fc.string({
      unit: fc.integer({ min: 0x20, max: 0xff }).map((c) =>
        String.fromCharCode(c)
      ),
      maxLength: 20,
    }),
  );
  const value = fc.array(fragment, { maxLength: 8 }).map((all) => all.join(""));
  await fc.assert(
    fc.asyncProperty(value, value, value, async (one, two, three) => {
      fc.pre(one !== VALID_A);
      for (
        const delivery of [
          { headers: { "provider-a-signature": one } },
          { headers: { "provider-b-signature": one } },
          {
            headers: {
              "webhook-signature": one,
              "webhook-id": two,
              "webhook-timestamp": three,
            },
            env: STANDARD,
          },
        ]
      ) {
        const error = await assertRejects(
          () => verify(delivery).then(assertForgeryImpossible(delivery)),
          DeliveryError,
        );
        assertEquals(ANSWERS[error.code].status, 401);
      }
    }),
    { numRuns: 150 },
  );
});

Deno.test("verifyDelivery() reports a provider without a secret as misconfigured", async () => {
  const error = await assertRejects(
    () =>
      verify({
        headers: { "provider-a-signature": VALID_A },
        env: { PROVIDER_B_SIGNING_SECRET: SECRET_B },
      }),
    DeliveryError,
    "PROVIDER_A_SIGNING_SECRET",
  );
  assertEquals(error.code, "provider_misconfigured");
  assertEquals(ANSWERS[error.code].status, 500);
});

Deno.test("verifyDelivery() repeats neither signature nor secret in an error", async () => {
  const headers = [
    { "provider-a-signature": `t=${NOW},v1=${OTHER_MAC}` },
    { "provider-a-signature": `t=${NOW},v1=${OTHER_MAC}0` },
    { "provider-a-signature": `t=${NOW - 999},v1=${OTHER_MAC}` },
    { "provider-b-signature": OTHER_MAC },
    { "provider-a-signature": OTHER_MAC, "provider-b-signature": OTHER_MAC },
  ];
  for (const one of headers) {
    const { message } = await assertRejects(
      () => verify({ headers: one }),
      DeliveryError,
    );
    for (const secret of [OTHER_MAC, MAC_A, SECRET_A, SECRET_B]) {
      assert(!message.includes(secret), message);
    }
  }
});

Deno.test("verifyDelivery() is the only maker of a VerifiedDelivery", () => {
  // @ts-expect-error The brand has no name outside its module.
  const forged: VerifiedDelivery = { provider: "a", body: new Uint8Array() };
  assertEquals(forged.provider, "a");
});

function hexToBase64(hex: string): string {
  return btoa(String.fromCharCode(
    ...hex.match(/../g)!.map((pair) => parseInt(pair, 16)),
  ));
}

/** Random text that verifies would be a break of HMAC, or of this service. */
function assertForgeryImpossible(delivery: Case): () => never {
  return () => {
    throw new TypeError(`Accepted: ${JSON.stringify(delivery)}`);
  };
}
