import { assert, assertEquals } from "@std/assert";
import type { Environment } from "../../../supabase/functions/_shared/billing/environment.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import {
  PROVIDERS,
  readFormatName,
  readOfEach,
  readProviderSettings,
} from "../../../supabase/functions/_shared/billing/settings/providers.ts";
import {
  LOCAL_SECRET_KEY as LOCAL_KEY,
  LOCAL_SIGNING_SECRETS,
} from "../../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import {
  hmacSha256Hex,
  paddleScheme,
  polarScheme,
  standardWebhooks,
  stripeScheme,
} from "../../../supabase/functions/billing-webhook/signatures/schemes.ts";

const STRIPE = "stripe-signature";
const SECRET = "dGhlLXNlY3JldC1vZi1wcm92aWRlci1hLTE";
const SECRET_B = "the-secret-of-provider-b";
const SHARED = "one-secret-for-both-of-them";
const GOOD = {
  PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}=`,
  PROVIDER_B_SIGNING_SECRET: SECRET_B,
};

async function readBoth(env: Environment) {
  const providers = (await readProviders({ ...GOOD, ...env })).slice(0, 2);
  assertEquals(providers.map(({ name }) => name), ["a", "b"]);
  return providers.map(({ name: _, keys, fault, reading, ...provider }) => {
    for (const key of keys) {
      assertEquals([key.extractable, key.usages], [false, ["verify"]]);
    }
    // A header must be able to have the name.
    for (const header of provider.headers) new Headers({ [header]: "" });

    if (fault === undefined) {
      return { ...provider, ...reading, keys: keys.length };
    }
    const isRepeated = [SECRET.slice(0, 8), SECRET_B, SHARED]
      .some((secret) => fault.includes(secret));
    assertEquals([isRepeated, keys.length], [false, 0], fault);
    return fault;
  });
}

const COMMON = {
  mode: "any",
  connect: false,
  acknowledges: false,
  keys: 1,
  format: FORMATS.stripe as object,
};
const OWN_A = "provider-a-signature";
const OF_A = { ...COMMON, headers: [OWN_A, STRIPE], scheme: stripeScheme };
const OF_B = {
  ...COMMON,
  headers: ["provider-b-signature"],
  scheme: hmacSha256Hex,
};
const OF_STANDARD = {
  headers: ["webhook-signature"],
  scheme: standardWebhooks,
};
Deno.test("webhook and worker read a further provider alike", async () => {
  const rows: object[] = PROVIDERS as never;
  rows.push({ name: "z", header: "provider-z-signature", scheme: "stripe" });
  try {
    const env = {
      ...GOOD,
      PROVIDER_Z_SIGNING_SECRET: SECRET,
      PROVIDER_Z_FORMAT: "paddle",
      PROVIDER_Z_MODE: "live",
      PROVIDER_Z_CONNECT: "allow",
      PROVIDER_Z_FAILURES: "acknowledge",
    };
    const settings = {
      format: "paddle",
      mode: "live",
      connect: true,
      acknowledges: true,
    };

    assertEquals<unknown>(readOfEach(env, readProviderSettings)["z"], settings);
    const { keys, name: _, reading, ...signer } = (await readProviders(env))
      .at(-1)!;
    assertEquals<unknown>([{ ...signer, ...reading }, keys.length], [{
      ...settings,
      format: FORMATS.paddle,
      scheme: paddleScheme,
      headers: ["paddle-signature"],
    }, 1]);

    // If a setting is wrong, the worker leaves the provider out, and the webhook
    // has a fault.
    const wrong = { ...env, PROVIDER_Z_FORMAT: "Paddle" };
    assertEquals(readOfEach(wrong, readFormatName)["z"], undefined);
    assert(
      (await readProviders(wrong)).at(-1)!.fault?.includes("Z_FORMAT must"),
    );
  } finally {
    rows.pop();
  }
});

const STANDARD = { PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" };
/** Keys of the project. */
const keys = (...values: string[]) => ({
  SUPABASE_SECRET_KEYS: JSON.stringify({ ...values }),
});
const ODD_NAME = "!#$%&'*+.^_`|~-x1";
const bytes = (count: number) => `whsec_${btoa("s".repeat(count))}`;
const LOCAL = Object.values(LOCAL_SIGNING_SECRETS);
const PLACEHOLDER = "contains a placeholder";
const PUBLIC = "contains the local stack's secret";
const MISFIT = "does not fit the signature scheme";

type Row = [expected: object | string, ...values: string[]];

const SETTINGS: Record<string, Row[]> = {
  FORMAT: [
    [{}, "", "stripe"],
    [{
      format: FORMATS.paddle,
      scheme: paddleScheme,
      headers: ["paddle-signature"],
    }, "paddle"],
    [{
      format: FORMATS.polar,
      scheme: polarScheme,
      headers: ["webhook-signature"],
      // Either of the two kinds of keys.
      keys: 2,
    }, "polar"],
    [{ ...OF_STANDARD, format: FORMATS.dodo }, "dodo"],
    [{
      format: FORMATS["lemon-squeezy"],
      scheme: hmacSha256Hex,
      headers: ["x-signature"],
    }, "lemon-squeezy"],
    ["must be stripe or paddle or polar", "Paddle", "toString"],
  ],
  MODE: [
    [{ mode: "test" }, "test"],
    [{ mode: "live" }, "live"],
    ["must be any or live or test, not", "Live", " live"],
  ],
  CONNECT: [
    [{ connect: true }, "allow"],
    ["must be ignore or allow, not", "true", "Allow"],
  ],
  FAILURES: [
    [{ acknowledges: true }, "acknowledge"],
    ["must be reject or acknowledge, not", "accept", "200"],
  ],
  SIGNATURE_SCHEME: [
    [{ headers: [OWN_A], scheme: hmacSha256Hex }, "hmac-sha256-hex"],
    [OF_STANDARD, "standard-webhooks"],
    ["must be one of", "rsa", "constructor"],
  ],
  SIGNATURE_HEADER: [
    [{}, ""],
    [{ headers: [ODD_NAME] }, ODD_NAME.toUpperCase()],
    ["must be the name", "a b", "x:", "sïg"],
  ],
  SIGNING_SECRET: [
    ["is not set", "", " \t\n"],
    [{ keys: 3 }, `${SECRET},${SECRET}b,${SECRET}c`],
    [
      "contains an empty secret",
      "whsec_",
      `${SECRET},whsec_`,
      `${SECRET},`,
      `,${SECRET}`,
      ",",
    ],
    [
      "has white space",
      ` ${SECRET}`,
      `${SECRET}\u00a0`,
      `${SECRET}, ${SECRET}`,
    ],
    [{}, "123456789abcdefg", "whsec_123456789a"],
    ["contains a secret of fewer than 16", "123456789abcdef", `x,${SECRET}`],
    [PLACEHOLDER, "whsec_...", "…", "whsec_<live>", "changeme"],
    [PLACEHOLDER, "CHANGE_ME_IN_PRODUCTION", "replace-me-with-it"],
    [PLACEHOLDER, "x".repeat(24), "your_secret", "whsec_placeholder_1"],
    // What only resembles a placeholder.
    [{}, "whsec_xxxxxxxxxy", "aaaaaaaaaaaaaaab", "Zq81.Lm7..Tt0aWd3"],
    [{}, "youryouryouryour"],
    [PUBLIC, ...LOCAL, `${SECRET},${LOCAL[1]}`],
  ],
};
const DEPENDENT: [beside: Environment, name: string, ...Row][] = [
  [STANDARD, "SIGNATURE_HEADER", {
    ...OF_STANDARD,
    headers: ["svix-signature"],
  }, "Svix-Signature"],
  [STANDARD, "SIGNATURE_HEADER", "must end", "x-sig"],
  // The local stack's are taken with its key alone.
  [keys("x", LOCAL_KEY), "SIGNING_SECRET", {}, ...LOCAL],
  [keys(`${LOCAL_KEY}x`), "SIGNING_SECRET", PUBLIC, ...LOCAL],
  [keys(`x${LOCAL_KEY}`), "SIGNING_SECRET", PUBLIC, ...LOCAL],
  [STANDARD, "SIGNING_SECRET", OF_STANDARD, bytes(16), bytes(17), bytes(18)],
  [STANDARD, "SIGNING_SECRET", OF_STANDARD, bytes(64)],
  [STANDARD, "SIGNING_SECRET", MISFIT, `${SECRET}=`, `${bytes(16)},${SECRET}`],
  [STANDARD, "SIGNING_SECRET", MISFIT, bytes(15), `${bytes(17)}=`],
  [STANDARD, "SIGNING_SECRET", MISFIT, bytes(17).slice(0, -1)],
  [STANDARD, "SIGNING_SECRET", MISFIT, bytes(24).slice("whsec_".length)],
  [STANDARD, "SIGNING_SECRET", MISFIT, `${bytes(15)}-_=`, `${bytes(17)}\n=`],
  [
    { PROVIDER_A_SIGNATURE_SCHEME: "polar" },
    "SIGNING_SECRET",
    { headers: ["webhook-signature"], scheme: polarScheme, keys: 2 },
    bytes(16).replace("==", ""),
  ],
];
const OF_BOTH: [says: string, a: string, b: string][] = [
  ["_SIGNING_SECRET is not set", "", ""],
  ["_SIGNING_SECRET share a secret", `${SECRET},${SHARED}`, SHARED],
  ["_SIGNING_SECRET share a secret", SHARED, `${SECRET_B},${SHARED}`],
];
Deno.test("readProviders() reads each provider, and refuses one with a fault", async () => {
  assertEquals<unknown>(await readBoth({}), [OF_A, OF_B]);
  const independent = Object.entries(SETTINGS).flatMap(([name, rows]) =>
    rows.map((row): typeof DEPENDENT[number] => [{}, name, ...row])
  );
  for (
    const [beside, name, expected, ...values] of [...independent, ...DEPENDENT]
  ) {
    const variable = `PROVIDER_A_${name}`;
    for (const value of values) {
      const [a, b] = await readBoth({ ...beside, [variable]: value });
      assertEquals<unknown>(b, OF_B);
      if (typeof expected === "string") {
        assert(`${a}`.startsWith(`${variable} ${expected}`), `${a}: ${value}`);
      } else {
        assertEquals<unknown>(a, { ...OF_A, ...expected }, value);
      }
    }
  }

  // Two accounts in one header; else it is that of the one that names it.
  const two = { PROVIDER_B_SIGNATURE_SCHEME: "stripe" };
  const [, b] = await readBoth(two);
  assertEquals((b as typeof OF_B).headers, [OF_B.headers[0], STRIPE]);
  const named = { PROVIDER_B_SIGNATURE_HEADER: "Stripe-Signature" };
  const headers = (await readBoth(named)).map((one) =>
    (one as typeof OF_A).headers
  );
  assertEquals(headers, [[OWN_A], [STRIPE]]);

  for (const [says, a, b] of OF_BOTH) {
    const faults = await readBoth({
      PROVIDER_A_SIGNING_SECRET: a,
      PROVIDER_B_SIGNING_SECRET: b,
    });
    for (const fault of faults) {
      assert(String(fault).includes(says), `${fault} and not ${says}`);
    }
  }
});
