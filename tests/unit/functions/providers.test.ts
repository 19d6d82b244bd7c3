import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  readProviders,
  type SignatureProvider,
} from "../../../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/common/keys.ts";
import { hmacHex } from "../../support/sign.ts";

const SECRET = "dGhlLXNlY3JldC1vZi1wcm92aWRlci1hLTE";
const SECRET_OF_B = "the-secret-of-provider-b";
const GOOD = {
  PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}=`,
  PROVIDER_B_SIGNING_SECRET: SECRET_OF_B,
};

async function readBoth(
  env: Record<string, string>,
): Promise<[a: SignatureProvider, b: SignatureProvider]> {
  const providers = await readProviders(env);
  const [a, b] = ["a", "b"].map((name) =>
    providers.find((provider) => provider.name === name)
  );
  assert(a !== undefined && b !== undefined);
  return [a, b];
}

/** Passes when a delivery of provider B is still accepted. */
async function assertServesB(
  providers: readonly SignatureProvider[],
): Promise<void> {
  const body = new TextEncoder().encode("{}");
  const { provider } = await verifyDelivery({
    headers: new Headers({
      "provider-b-signature": hmacHex(SECRET_OF_B, body),
    }),
    body,
  }, { providers, nowSeconds: 0, toleranceSeconds: 300 });
  assertEquals(provider, "b");
}

Deno.test("readProviders() has the documented defaults", async () => {
  const providers = await readProviders(GOOD);
  assertEquals(
    providers.map(({ name, header }) => ({ name, header })),
    [
      { name: "a", header: "provider-a-signature" },
      { name: "b", header: "provider-b-signature" },
    ],
  );
  const [a, b] = await readBoth(GOOD);
  assertEquals([a.fault, b.fault], [undefined, undefined]);
  assertEquals(a.scheme.readClaim(new Headers(), a.header), undefined);
  const plain = new Headers({ [b.header]: "0".repeat(64) });
  assertEquals(b.scheme.readClaim(plain, b.header)?.prefix, "");
  const timed = new Headers({ [a.header]: "t=1,v1=" });
  assertEquals(a.scheme.readClaim(timed, a.header)?.timestamp, 1);
});

Deno.test("readProviders() takes an empty setting for none", async () => {
  const [a, b] = await readBoth({
    ...GOOD,
    PROVIDER_A_SIGNATURE_HEADER: "",
    PROVIDER_A_SIGNATURE_SCHEME: "",
    PROVIDER_B_SIGNATURE_HEADER: "",
    PROVIDER_B_SIGNATURE_SCHEME: "",
  });
  assertEquals(a.header, "provider-a-signature");
  assertEquals(b.header, "provider-b-signature");
  assertEquals([a.fault, b.fault], [undefined, undefined]);
});

Deno.test("readProviders() reads each provider's mode", async () => {
  const cases = [
    [{}, "any", "any"],
    [{ PROVIDER_A_MODE: "", PROVIDER_B_MODE: "test" }, "any", "test"],
    [{ PROVIDER_A_MODE: "live", PROVIDER_B_MODE: "any" }, "live", "any"],
  ] as const;
  for (const [env, ...modes] of cases) {
    const providers = await readBoth({ ...GOOD, ...env });
    assertEquals(providers.map(({ mode }) => mode), [...modes]);
    assertEquals(providers.map(({ fault }) => fault), [undefined, undefined]);
  }
});

Deno.test("readProviders() lets the scheme choose the header unless one is set", async () => {
  const [a] = await readBoth({
    ...GOOD,
    PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
  });
  assertEquals([a.header, a.fault], ["webhook-signature", undefined]);

  const [custom] = await readBoth({
    ...GOOD,
    PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
    PROVIDER_A_SIGNATURE_HEADER: "Svix-Signature",
  });
  assertEquals([custom.header, custom.fault], ["svix-signature", undefined]);
});

Deno.test("readProviders() imports a key for each secret, to verify only", async () => {
  const [a, b] = await readBoth({
    ...GOOD,
    PROVIDER_A_SIGNING_SECRET: ["one", "two", "three"]
      .map((name) => `whsec_secret_number_${name}`).join(),
  });
  assertEquals([a.keys.length, b.keys.length], [3, 1]);
  for (const key of [...a.keys, ...b.keys]) {
    assertEquals(key.extractable, false);
    assertEquals([...key.usages], ["verify"]);
    assertEquals(key.type, "secret");
    const { name, hash } = key.algorithm as HmacKeyAlgorithm;
    assertEquals([name, hash.name], ["HMAC", "SHA-256"]);
    await assertRejects(() => crypto.subtle.exportKey("raw", key));
  }
});

/** What is set for provider A, and what the fault has to say. */
const FAULTS: Record<string, [env: Record<string, string>, says: string]> = {
  "an empty secret": [
    { PROVIDER_A_SIGNING_SECRET: "" },
    "PROVIDER_A_SIGNING_SECRET is not set",
  ],
  "a blank secret": [
    { PROVIDER_A_SIGNING_SECRET: " \t\n" },
    "PROVIDER_A_SIGNING_SECRET is not set",
  ],
  "a prefix without a secret": [
    { PROVIDER_A_SIGNING_SECRET: "whsec_" },
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
  ],
  "a prefix without a secret, second": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET},whsec_` },
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
  ],
  "a comma at the end": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET},` },
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
  ],
  "a comma in front": [
    { PROVIDER_A_SIGNING_SECRET: `,${SECRET}` },
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
  ],
  "nothing but a comma": [
    { PROVIDER_A_SIGNING_SECRET: "," },
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
  ],
  "white space in front": [
    { PROVIDER_A_SIGNING_SECRET: ` ${SECRET}` },
    "PROVIDER_A_SIGNING_SECRET has white space",
  ],
  "a line break at the end": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET}\n` },
    "PROVIDER_A_SIGNING_SECRET has white space",
  ],
  "a no-break space at the end": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET}\u00a0` },
    "PROVIDER_A_SIGNING_SECRET has white space",
  ],
  "white space after the comma": [
    { PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}, ${SECRET}` },
    "PROVIDER_A_SIGNING_SECRET has white space",
  ],
  "a blank secret among others": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET}, ` },
    "PROVIDER_A_SIGNING_SECRET",
  ],
  "15 characters": [
    { PROVIDER_A_SIGNING_SECRET: "123456789abcdef" },
    "PROVIDER_A_SIGNING_SECRET contains a secret of fewer than 16 characters",
  ],
  "15 characters with the prefix": [
    { PROVIDER_A_SIGNING_SECRET: "whsec_123456789" },
    "PROVIDER_A_SIGNING_SECRET contains a secret of fewer than 16 characters",
  ],
  "a part of a list in front of it": [
    { PROVIDER_A_SIGNING_SECRET: `x,${SECRET}` },
    "PROVIDER_A_SIGNING_SECRET contains a secret of fewer than 16 characters",
  ],
  "a part of a list behind it": [
    { PROVIDER_A_SIGNING_SECRET: `${SECRET},${SECRET.slice(0, 5)}` },
    "PROVIDER_A_SIGNING_SECRET contains a secret of fewer than 16 characters",
  ],
  ...Object.fromEntries(
    [
      "whsec_...",
      "...",
      "…",
      "whsec_<live>",
      "<the provider's secret>",
      "<new>,<old>",
      "changeme",
      "CHANGE_ME_IN_PRODUCTION",
      "replace-me-with-the-secret",
      "your_webhook_signing_secret",
      "whsec_your-endpoint-secret",
      "placeholder_0123456789",
      "xxxxxxxxxxxxxxxxxxxxxxxx",
      "whsec_xxxxxxxxxx",
      "whsec_00000000000000000000000000000000",
    ].map((placeholder) => [
      `the placeholder ${placeholder}`,
      [
        { PROVIDER_A_SIGNING_SECRET: placeholder },
        "PROVIDER_A_SIGNING_SECRET contains a placeholder",
      ],
    ]),
  ),
  "the local stack's secret": [
    {
      PROVIDER_A_SIGNING_SECRET:
        LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET,
    },
    "PROVIDER_A_SIGNING_SECRET contains the local stack's secret",
  ],
  "the local stack's secret of the other provider, among others": [
    {
      PROVIDER_A_SIGNING_SECRET:
        `${SECRET},${LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET}`,
    },
    "PROVIDER_A_SIGNING_SECRET contains the local stack's secret",
  ],
  ...Object.fromEntries(
    ["Live", "production", " live", "true", "live,test"].map((mode) => [
      `the mode "${mode}"`,
      [
        { PROVIDER_A_MODE: mode },
        "PROVIDER_A_MODE must be one of live, test, any",
      ],
    ]),
  ),
  "an unknown scheme": [
    { PROVIDER_A_SIGNATURE_SCHEME: "rsa" },
    "PROVIDER_A_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex",
  ],
  "a scheme in upper case": [
    { PROVIDER_A_SIGNATURE_SCHEME: "Stripe" },
    "PROVIDER_A_SIGNATURE_SCHEME must be one of",
  ],
  "a scheme named as a member of every object": [
    { PROVIDER_A_SIGNATURE_SCHEME: "constructor" },
    "PROVIDER_A_SIGN",
  ],
  "a header name with a space": [
    { PROVIDER_A_SIGNATURE_HEADER: "provider a signature" },
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
  ],
  "a header name with white space at its end": [
    { PROVIDER_A_SIGNATURE_HEADER: "provider-a-signature " },
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
  ],
  "a header name with a colon": [
    { PROVIDER_A_SIGNATURE_HEADER: "provider-a-signature:" },
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
  ],
  "a header name with a letter beyond ASCII": [
    { PROVIDER_A_SIGNATURE_HEADER: "sïgnature" },
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
  ],
  "a standard-webhooks header without the ending": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNATURE_HEADER: "x-sig",
    },
    "PROVIDER_A_SIGNATURE_HEADER must end with -signature",
  ],
  "a standard-webhooks secret without its prefix": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `${SECRET}=`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
  "a standard-webhooks secret that is not base64": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}!`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
  "a standard-webhooks secret in base64url": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET.slice(0, -3)}-_==`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
  "a standard-webhooks secret cut off": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET.slice(0, -2)}`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
  "a standard-webhooks secret of 15 bytes": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `whsec_${btoa("15-bytes-secret")}`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
  "one bad secret of several": [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}=,${SECRET}`,
    },
    "PROVIDER_A_SIGNING_SECRET does not fit",
  ],
};

for (const [name, [env, says]] of Object.entries(FAULTS)) {
  Deno.test(`readProviders() refuses one provider for ${name} and serves the other`, async () => {
    const providers = await readBoth({ ...GOOD, ...env });
    const [a, b] = providers;
    assertEquals(a.keys.length, 0);
    assertStringIncludes(a.fault ?? "no fault", says);
    assert(!a.fault!.includes(SECRET.slice(0, 8)), "The secret is repeated");
    assertEquals([b.fault, b.keys.length], [undefined, 1]);
    await assertServesB(providers);
  });
}

Deno.test("readProviders() refuses one provider that has no secret at all", async () => {
  const [a, b] = await readBoth({
    PROVIDER_A_SIGNING_SECRET: GOOD.PROVIDER_A_SIGNING_SECRET,
  });
  assertEquals([a.fault, a.keys.length], [undefined, 1]);
  assertEquals(b.keys.length, 0);
  assertStringIncludes(
    b.fault ?? "no fault",
    "PROVIDER_B_SIGNING_SECRET is not set",
  );
});

Deno.test("readProviders() refuses both providers without an environment", async () => {
  for (const { keys, fault } of await readBoth({})) {
    assertEquals(keys.length, 0);
    assertStringIncludes(fault ?? "no fault", "is not set");
  }
});

Deno.test("readProviders() refuses both providers for one secret", async () => {
  const shared = "one-secret-for-both-of-them";
  for (
    const [a, b] of [
      [shared, shared],
      [`${SECRET},${shared}`, shared],
      [shared, `${SECRET_OF_B},${shared},${SECRET}`],
    ] as const
  ) {
    const providers = await readBoth({
      PROVIDER_A_SIGNING_SECRET: a,
      PROVIDER_B_SIGNING_SECRET: b,
    });
    for (const { keys, fault = "none" } of providers) {
      assertEquals(keys.length, 0);
      assertStringIncludes(fault, "PROVIDER_A_SIGNING_SECRET");
      assertStringIncludes(fault, "PROVIDER_B_SIGNING_SECRET");
      assertStringIncludes(fault, "share a secret");
      assert(!fault.includes(shared), "The secret is repeated");
    }
  }
});

Deno.test("readProviders() takes 16 characters, and what only resembles a placeholder", async () => {
  for (
    const secret of [
      "123456789abcdefg",
      "whsec_123456789a",
      "aaaaaaaaaaaaaaab",
      "Zq81.Lm7..Tt0aWd3",
      "youryouryouryour",
    ]
  ) {
    const [a] = await readBoth({ ...GOOD, PROVIDER_A_SIGNING_SECRET: secret });
    assertEquals([secret, a.fault, a.keys.length], [secret, undefined, 1]);
  }
});

Deno.test("readProviders() takes the local stack's secrets with the local stack's key alone", async () => {
  const { secret } = await localKeys();
  const keysOf = (...keys: string[]) => ({
    ...LOCAL_SIGNING_SECRETS,
    SUPABASE_URL: "http://kong:8000",
    SUPABASE_SECRET_KEYS: JSON.stringify(
      Object.fromEntries(keys.map((key, index) => [`key${index}`, key])),
    ),
  });
  for (const env of [keysOf(secret), keysOf("sb_secret_other", secret)]) {
    const faults = (await readBoth(env)).map(({ fault }) => fault);
    assertEquals(faults, [undefined, undefined]);
  }
  for (
    const env of [
      LOCAL_SIGNING_SECRETS,
      keysOf(),
      keysOf("sb_secret_other"),
      keysOf(`${secret}x`),
      keysOf(`x${secret}`),
      { ...LOCAL_SIGNING_SECRETS, SUPABASE_URL: "http://127.0.0.1:54321" },
    ]
  ) {
    for (const { fault, keys } of await readBoth(env)) {
      assertStringIncludes(fault ?? "no fault", "the local stack's secret");
      assertEquals(keys.length, 0);
    }
  }
});

Deno.test("readProviders() refuses both providers for one header", async () => {
  const environments = [
    {
      PROVIDER_A_SIGNATURE_HEADER: "X-Signature",
      PROVIDER_B_SIGNATURE_HEADER: "x-signature",
    },
    { PROVIDER_A_SIGNATURE_HEADER: "provider-b-signature" },
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_B_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_B_SIGNING_SECRET: `whsec_${SECRET}=`,
    },
  ];
  for (const env of environments) {
    for (const { keys, fault, header } of await readBoth({ ...GOOD, ...env })) {
      assertEquals(keys.length, 0);
      assertStringIncludes(fault ?? "no fault", header);
    }
  }
});

Deno.test("readProviders() lets no delivery through under a fault", async () => {
  for (const [name, [env]] of Object.entries(FAULTS)) {
    const providers = await readBoth({ ...GOOD, ...env });
    const { header } = providers[0];
    // Requests cannot carry a header whose name is none.
    if (/[^a-z-]/.test(header)) continue;
    const body = new TextEncoder().encode("{}");
    // What an empty key would accept.
    const empty = hmacHex("", "1.", body);
    for (const value of [`t=1,v1=${empty}`, hmacHex("", body), "", "rubbish"]) {
      const headers = new Headers({ [header]: value });
      const error = await assertRejects(
        () =>
          verifyDelivery({ headers, body }, {
            providers,
            nowSeconds: 1,
            toleranceSeconds: 300,
          }),
        DeliveryError,
      );
      assertEquals(error.code, "provider_misconfigured", name);
    }
  }
});
