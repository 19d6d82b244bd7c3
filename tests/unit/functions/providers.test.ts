import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  readProviders,
  type SignatureProvider,
} from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  hmacSha256Hex,
  standardWebhooks,
  stripe,
} from "../../../supabase/functions/billing-webhook/schemes.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/common/keys.ts";

const SECRET = "dGhlLXNlY3JldC1vZi1wcm92aWRlci1hLTE";
const GOOD = {
  PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}=`,
  PROVIDER_B_SIGNING_SECRET: "the-secret-of-provider-b",
};

type Env = Record<string, string>;

async function readBoth(
  env: Env,
): Promise<[a: SignatureProvider, b: SignatureProvider]> {
  const [a, b, ...more] = await readProviders(env);
  assert(a && b);
  assertEquals([a.name, b.name, more], ["a", "b", []]);
  return [a, b];
}

/** Settings without a fault, and what they make of the provider. */
const SETTINGS: [
  env: Env,
  provider: 0 | 1,
  expected: Partial<SignatureProvider>,
][] = [
  [{}, 0, { header: "provider-a-signature", scheme: stripe, mode: "any" }],
  [{}, 1, {
    header: "provider-b-signature",
    scheme: hmacSha256Hex,
    mode: "any",
  }],
  [
    {
      PROVIDER_A_SIGNATURE_HEADER: "",
      PROVIDER_A_SIGNATURE_SCHEME: "",
      PROVIDER_A_MODE: "",
    },
    0,
    { header: "provider-a-signature", scheme: stripe, mode: "any" },
  ],
  [{ PROVIDER_B_MODE: "test" }, 1, { mode: "test" }],
  [{ PROVIDER_A_MODE: "live" }, 0, { mode: "live" }],
  [{ PROVIDER_A_MODE: "any" }, 0, { mode: "any" }],
  [{ PROVIDER_B_SIGNATURE_SCHEME: "stripe" }, 1, { scheme: stripe }],
  [{ PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" }, 0, {
    header: "webhook-signature",
    scheme: standardWebhooks,
  }],
  [
    {
      PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_A_SIGNATURE_HEADER: "Svix-Signature",
    },
    0,
    { header: "svix-signature" },
  ],
  [{ PROVIDER_A_SIGNATURE_HEADER: "!#$%&'*+.^_`|~-X1" }, 0, {
    header: "!#$%&'*+.^_`|~-x1",
  }],
];
Deno.test("readProviders() reads the settings of each provider, or its defaults", async () => {
  for (const [env, index, expected] of SETTINGS) {
    const provider = (await readBoth({ ...GOOD, ...env }))[index];
    const { header, scheme, mode } = { ...provider, ...expected };
    assertEquals(
      [provider.header, provider.scheme, provider.mode, provider.fault],
      [header, scheme, mode, undefined],
      JSON.stringify(env),
    );
  }
});

Deno.test("readProviders() imports a key for each secret, to verify only", async () => {
  const secrets = ["one", "two", "three"]
    .map((name) => `whsec_secret_number_${name}`);
  const env = { ...GOOD, PROVIDER_A_SIGNING_SECRET: secrets.join() };
  const [a, b] = await readBoth(env);
  assertEquals([a.keys.length, b.keys.length], [3, 1]);
  for (const key of [...a.keys, ...b.keys]) {
    const { name, hash } = key.algorithm as HmacKeyAlgorithm;
    assertEquals(
      [key.extractable, key.usages, key.type, name, hash.name],
      [false, ["verify"], "secret", "HMAC", "SHA-256"],
    );
    await assertRejects(() => crypto.subtle.exportKey("raw", key));
  }
});

const STANDARD = { PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" };
const secret = (value: string) => ({ PROVIDER_A_SIGNING_SECRET: value });
const header = (value: string) => ({ PROVIDER_A_SIGNATURE_HEADER: value });

/** What the fault of provider A says, and the settings that have it. */
const FAULTS: [says: string, ...environments: Env[]][] = [
  ["PROVIDER_A_SIGNING_SECRET is not set", secret(""), secret(" \t\n")],
  [
    "PROVIDER_A_SIGNING_SECRET contains an empty secret",
    ...["whsec_", `${SECRET},whsec_`, `${SECRET},`, `,${SECRET}`, ","]
      .map(secret),
  ],
  [
    "PROVIDER_A_SIGNING_SECRET has white space",
    ...[` ${SECRET}`, `${SECRET}\n`, `${SECRET}\u00a0`, `${SECRET}, ${SECRET}`]
      .map(secret),
    secret(`${SECRET}, `),
  ],
  [
    "PROVIDER_A_SIGNING_SECRET contains a secret of fewer than 16 characters",
    ...["123456789abcdef", "whsec_123456789", `x,${SECRET}`, `${SECRET},dGhlL`]
      .map(secret),
  ],
  [
    "PROVIDER_A_SIGNING_SECRET contains a placeholder",
    ...[
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
    ].map(secret),
  ],
  [
    "PROVIDER_A_SIGNING_SECRET contains the local stack's secret",
    secret(LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET),
    secret(`${SECRET},${LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET}`),
  ],
  [
    "PROVIDER_A_MODE must be one of live, test, any",
    ...["Live", "production", " live", "true", "live,test"]
      .map((mode) => ({ PROVIDER_A_MODE: mode })),
  ],
  [
    "PROVIDER_A_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex",
    ...["rsa", "Stripe", "constructor"]
      .map((scheme) => ({ PROVIDER_A_SIGNATURE_SCHEME: scheme })),
  ],
  [
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
    ...["provider a signature", "x-signature ", "x-signature:", "sïgnature"]
      .map(header),
  ],
  [
    "PROVIDER_A_SIGNATURE_HEADER must end with -signature",
    { ...STANDARD, ...header("x-sig") },
  ],
  [
    "PROVIDER_A_SIGNING_SECRET does not fit the signature scheme",
    { ...STANDARD, ...secret(`${SECRET}=`) },
    { ...STANDARD, ...secret(`whsec_${SECRET}=,${SECRET}`) },
  ],
];
Deno.test("readProviders() refuses the provider that has a fault, and serves the other", async () => {
  for (const [says, ...environments] of FAULTS) {
    for (const env of environments) {
      const text = JSON.stringify(env);
      const [a, b] = await readBoth({ ...GOOD, ...env });
      assertEquals(a.keys, [], text);
      assert(a.fault?.startsWith(says), `${a.fault} for ${text}`);
      assert(!a.fault?.includes(SECRET.slice(0, 8)), "The secret is repeated");
      assertEquals([b.fault, b.keys.length], [undefined, 1], text);
      // A header must be able to have the name.
      new Headers({ [a.header]: "" });
    }
  }
});

const shared = "one-secret-for-both-of-them";

/** What the faults of both say, and settings that both have. */
const FAULTS_OF_BOTH: [says: RegExp, ...environments: Env[]][] = [
  [/^PROVIDER_._SIGNING_SECRET is not set/, {
    PROVIDER_A_SIGNING_SECRET: "",
    PROVIDER_B_SIGNING_SECRET: "",
  }],
  [
    /PROVIDER_(?:A.*PROVIDER_B|B.*PROVIDER_A)_SIGNING_SECRET share a secret/,
    ...[
      [shared, shared],
      [`${SECRET},${shared}`, shared],
      [shared, `the-secret-of-provider-b,${shared},${SECRET}`],
    ].map(([a = "", b = ""]) => ({
      PROVIDER_A_SIGNING_SECRET: a,
      PROVIDER_B_SIGNING_SECRET: b,
    })),
  ],
  [
    /(?:x|provider-b|webhook)-signature is also that of another provider/,
    { ...header("X-Signature"), PROVIDER_B_SIGNATURE_HEADER: "x-signature" },
    header("provider-b-signature"),
    {
      ...STANDARD,
      PROVIDER_B_SIGNATURE_SCHEME: "standard-webhooks",
      PROVIDER_B_SIGNING_SECRET: `whsec_${SECRET}=`,
    },
  ],
];
Deno.test("readProviders() refuses both providers for what they share", async () => {
  for (const [says, ...environments] of FAULTS_OF_BOTH) {
    for (const env of environments) {
      for (const { keys, fault } of await readBoth({ ...GOOD, ...env })) {
        assert(says.test(fault ?? ""), `${fault} for ${JSON.stringify(env)}`);
        assert(!fault?.includes(shared), "The secret is repeated");
        assertEquals(keys, []);
      }
    }
  }
});

Deno.test("readProviders() takes 16 characters, and what only resembles a placeholder", async () => {
  for (
    const value of [
      "123456789abcdefg",
      "whsec_123456789a",
      "whsec_xxxxxxxxxy",
      "aaaaaaaaaaaaaaab",
      "Zq81.Lm7..Tt0aWd3",
      "youryouryouryour",
    ]
  ) {
    const [a] = await readBoth({ ...GOOD, ...secret(value) });
    assertEquals([a.fault, a.keys.length], [undefined, 1], value);
  }
});

Deno.test("readProviders() takes the local stack's secrets with its key alone", async () => {
  const local = (await localKeys()).secret;
  const cases: [keys: string[], isLocal: boolean][] = [
    [[local], true],
    [["sb_secret_other", local], true],
    [[], false],
    [["sb_secret_other"], false],
    [[`${local}x`], false],
    [[`x${local}`], false],
  ];
  for (const [keys, isLocal] of cases) {
    const faults = (await readBoth({
      ...LOCAL_SIGNING_SECRETS,
      SUPABASE_URL: "http://127.0.0.1:54321",
      SUPABASE_SECRET_KEYS: JSON.stringify({ ...keys }),
    })).map(({ fault }) => fault?.includes("the local stack's secret"));
    const expected = isLocal ? undefined : true;
    assertEquals(faults, [expected, expected], keys.join());
  }
});
