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
import { localKeys } from "../../../scripts/local_stack/keys.ts";

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

const A = "provider-a-signature";
const STANDARD = { PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" };
const secret = (value: string) => ({ PROVIDER_A_SIGNING_SECRET: value });
const header = (value: string) => ({ PROVIDER_A_SIGNATURE_HEADER: value });
const mode = (value: string) => ({ PROVIDER_A_MODE: value });
const scheme = (value: string) => ({ PROVIDER_A_SIGNATURE_SCHEME: value });
const ODD_NAME = "!#$%&'*+.^_`|~-x1";

Deno.test("readProviders() reads the settings of a provider, or its defaults", async () => {
  const svix = { ...STANDARD, ...header("Svix-Signature") };
  const cases: [Env, header: string, scheme: object, mode: string][] = [
    [{}, A, stripe, "any"],
    [{ ...header(""), ...mode(""), ...scheme("") }, A, stripe, "any"],
    [mode("any"), A, stripe, "any"],
    [mode("test"), A, stripe, "test"],
    [mode("live"), A, stripe, "live"],
    [scheme("hmac-sha256-hex"), A, hmacSha256Hex, "any"],
    [STANDARD, "webhook-signature", standardWebhooks, "any"],
    [svix, "svix-signature", standardWebhooks, "any"],
    [header(ODD_NAME.toUpperCase()), ODD_NAME, stripe, "any"],
  ];
  for (const [env, ...expected] of cases) {
    const [a, b] = await readBoth({ ...GOOD, ...env });
    const { header, scheme, mode, fault } = a;
    const text = JSON.stringify(env);
    assertEquals([header, scheme, mode, fault], [...expected, undefined], text);
    assertEquals([b.header, b.scheme], ["provider-b-signature", hmacSha256Hex]);
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

const [LOCAL_A, LOCAL_B] = Object.values(LOCAL_SIGNING_SECRETS);
const PLACEHOLDER = "contains a placeholder";
/** What is said of provider A's secrets that are refused. */
const SECRETS: [says: string, ...secrets: string[]][] = [
  ["is not set", "", " \t\n"],
  ["contains an empty secret", "whsec_", `${SECRET},whsec_`, `${SECRET},`],
  ["contains an empty secret", `,${SECRET}`, ","],
  ["has white space", ` ${SECRET}`, `${SECRET}\n`, `${SECRET}\u00a0`],
  ["has white space", `${SECRET}, ${SECRET}`, `${SECRET}, `],
  ["contains a secret of fewer than 16", "123456789abcdef", `x,${SECRET}`],
  ["contains a secret of fewer than 16", "whsec_123456789", `${SECRET},dGhlL`],
  [PLACEHOLDER, "whsec_...", "...", "…", "whsec_<live>", "<new>,<old>"],
  [PLACEHOLDER, "changeme", "CHANGE_ME_IN_PRODUCTION", "replace-me-with-it"],
  [PLACEHOLDER, "your_webhook_secret", "whsec_your-secret", "x".repeat(24)],
  [PLACEHOLDER, "placeholder_0123456789", "whsec_xxxxxxxxxx", "<secret>"],
  ["contains the local stack's secret", `${LOCAL_A}`, `${SECRET},${LOCAL_B}`],
];
/** What the fault of provider A says, and the settings that have it. */
const FAULTS: [says: string, ...environments: Env[]][] = [
  ...SECRETS.map(([says, ...secrets]): [string, ...Env[]] => {
    return [`PROVIDER_A_SIGNING_SECRET ${says}`, ...secrets.map(secret)];
  }),
  [
    "PROVIDER_A_MODE must be one of live, test, any",
    ...["Live", "production", " live", "true", "live,test"].map(mode),
  ],
  [
    "PROVIDER_A_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex",
    ...["rsa", "Stripe", "constructor"].map(scheme),
  ],
  [
    "PROVIDER_A_SIGNATURE_HEADER must be the name of an HTTP header",
    ...["a signature", "x-signature ", "x-signature:", "sïgnature"].map(header),
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
const both = (a: string, b: string) => {
  return { ...secret(a), PROVIDER_B_SIGNING_SECRET: b };
};

/** What the faults of both say, and settings that both have. */
const FAULTS_OF_BOTH: [says: RegExp, ...environments: Env[]][] = [
  [/^PROVIDER_._SIGNING_SECRET is not set/, both("", "")],
  [
    /PROVIDER_(?:A.*PROVIDER_B|B.*PROVIDER_A)_SIGNING_SECRET share a secret/,
    both(shared, shared),
    both(`${SECRET},${shared}`, shared),
    both(shared, `the-secret-of-provider-b,${shared},${SECRET}`),
  ],
  [
    /(?:x|provider-b|webhook)-signature is also that of another provider/,
    { ...header("X-Signature"), PROVIDER_B_SIGNATURE_HEADER: "x-signature" },
    header("provider-b-signature"),
    {
      ...both(`whsec_${SECRET}=`, `whsec_${btoa("another secret of b")}`),
      ...{ ...STANDARD, PROVIDER_B_SIGNATURE_SCHEME: "standard-webhooks" },
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
  const values = [
    ...["123456789abcdefg", "whsec_123456789a", "whsec_xxxxxxxxxy"],
    ...["aaaaaaaaaaaaaaab", "Zq81.Lm7..Tt0aWd3", "youryouryouryour"],
  ];
  for (const value of values) {
    const [a] = await readBoth({ ...GOOD, ...secret(value) });
    assertEquals([a.fault, a.keys.length], [undefined, 1], value);
  }
});

Deno.test("readProviders() takes the local stack's secrets with its key alone", async () => {
  const local = (await localKeys()).secret;
  const others = [[], ["sb_secret_other"], [`${local}x`], [`x${local}`]];
  for (const keys of [[local], ["sb_secret_other", local], ...others]) {
    const SUPABASE_SECRET_KEYS = JSON.stringify({ ...keys });
    const env = { ...LOCAL_SIGNING_SECRETS, SUPABASE_SECRET_KEYS };
    for (const { fault = "none" } of await readBoth(env)) {
      const isFault = fault.includes("the local stack's secret");
      assertEquals(isFault, !keys.includes(local), keys.join());
    }
  }
});
