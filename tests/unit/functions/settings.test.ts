/** The settings of both functions: what is read, and what is refused. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import {
  type Config,
  type Environment,
  readConfig,
} from "../../../supabase/functions/_shared/billing/config.ts";
import {
  readProviders,
  type SignatureProvider,
} from "../../../supabase/functions/billing-webhook/providers.ts";
import {
  hmacSha256Hex,
  standardWebhooks,
  stripe,
} from "../../../supabase/functions/billing-webhook/schemes.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/local_stack/keys.ts";
import { NOTIFICATION_SECRET, SLACK } from "./fixtures.ts";

const ENV = {
  SUPABASE_URL: "http://127.0.0.1:54321",
  SUPABASE_SECRET_KEYS: '{"default":"sb_secret_new"}',
  SUPABASE_SERVICE_ROLE_KEY: "legacy",
};
const DEFAULTS: Config = {
  supabaseUrl: "http://127.0.0.1:54321",
  secretKey: "sb_secret_new",
  toleranceSeconds: 300,
  maxBodyBytes: 1_048_576,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
};
const KEYS = "SUPABASE_SECRET_KEYS";
const TOLERANCE = "SIGNATURE_TOLERANCE_SECONDS";
const UNMAPPED = "UNMAPPED_SUBSCRIPTIONS";
const ONCE = "NOTIFY_ONCE_PER_INVOICE";
type Values = (string | undefined)[];

const CONFIG: [expected: Partial<Config>, name: string, ...Values][] = [
  ...[TOLERANCE, "MAX_BODY_BYTES", UNMAPPED, ONCE]
    .map((name): [object, string, string] => [{}, name, ""]),
  [{ toleranceSeconds: 1 }, TOLERANCE, "1"],
  [{ maxBodyBytes: 9_999_999_999 }, "MAX_BODY_BYTES", "9999999999"],
  [{ unmappedSubscriptions: "ignore" }, UNMAPPED, "ignore"],
  [{ oncePerInvoice: true }, ONCE, "true"],
  [{ secretKey: "legacy" }, KEYS, undefined, "", "{}", "[]", '{"a":1}'],
  [{ secretKey: "legacy" }, KEYS, '{"default":""}', '{"default":null}'],
  [{ secretKey: "two" }, KEYS, '{"one":"one","default":"two"}'],
  [{ secretKey: "one" }, KEYS, '{"":"","one":"one","two":"two"}'],
  // White space around a key is no fault.
  [{ secretKey: "one\n" }, KEYS, '{"default":"one\\n"}'],
];
Deno.test("readConfig() reads what is set, and has the documented defaults", () => {
  assertEquals(readConfig(ENV), DEFAULTS);
  for (const [expected, name, ...values] of CONFIG) {
    for (const value of values) {
      const config = readConfig({ ...ENV, [name]: value });
      assertEquals(config, { ...DEFAULTS, ...expected }, `${name}=${value}`);
    }
  }
});

const WEBHOOK = {
  NOTIFICATION_URL: "https://hooks.test/LEAKED",
  NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
};
const EMAIL = {
  RESEND_API_KEY: "re_LEAKED",
  NOTIFICATION_FROM: "Billing <billing@example.com>",
};

const NOTHING = { name: undefined, rate: undefined, alerts: undefined };

/** Chooses both channels; nothing may be sent. */
function choose(env: Environment) {
  const lines: string[] = [];
  const refuse = () => JSON.parse("Nothing is to be sent here");
  const options = { fetch: refuse, clock: Date.now };
  const channel = chooseChannel(env, {
    ...options,
    addressOf: refuse,
    log: (level, message) => lines.push(`${level}: ${message}`),
  });
  const alerts = chooseAlertChannel(env, options)?.name;
  return { name: channel?.name, rate: channel?.perSecond, alerts, lines };
}

const NONE =
  "warn: no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY";
const UNUSED =
  "warn: RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them";
const CHOICES: [env: Environment, chosen: object, ...lines: string[]][] = [
  [WEBHOOK, { name: "webhook" }],
  [EMAIL, { name: "email", rate: 2 }],
  [{ ...EMAIL, EMAIL_REQUESTS_PER_SECOND: "10" }, { name: "email", rate: 10 }],
  [{ ...EMAIL, RESEND_API_KEY: "re_unit\n" }, { name: "email", rate: 2 }],
  [{ ...EMAIL, ...WEBHOOK }, { name: "webhook" }, UNUSED],
  [{ NOTIFICATION_URL: "", ALERT_URL: "" }, {}, NONE],
];
const ALERTS: [name: string, ...urls: string[]][] = [
  ["slack", SLACK, "https://hooks.slack-gov.com/services/T0/B0/x"],
  ["slack", "HTTPS://Hooks.Slack.com:443/services/T0/B0/x"],
  ["webhook", "http://127.0.0.1:8080/", "https://ops.test/hooks.slack.com/x"],
  ["webhook", "https://hooks.slack.com.ops.test/services/x"],
];
Deno.test("the channels: a URL goes before e-mail, and Slack needs no secret", () => {
  for (const [env, chosen, ...lines] of CHOICES) {
    assertEquals({ ...NOTHING, ...chosen, lines }, choose(env));
  }
  for (const [name, ...urls] of ALERTS) {
    for (const ALERT_URL of urls) {
      const secret = { ALERT_SIGNING_SECRET: NOTIFICATION_SECRET };
      const env = { ALERT_URL, ...(name === "webhook" && secret) };
      assertEquals(choose(env).alerts, name, ALERT_URL);
    }
  }
});

const NUMBERS = [
  ...["0", "-1", "1.5", "1e3", "0x10", " 300", "300 ", "300s", "0300", "NaN"],
  "1".repeat(11),
];
const CUT = '{"default":"LEAKED';
const WHOLE_NUMBER = "must be a whole number above 0";
const BROKEN_KEY = [`${CUT}\\nx"}`, `${CUT} \\r\\n x"}`, `${CUT}\\u0000"}`];
const HTTPS = "must be an https URL";
const NO_USER = "must not contain a user name or password";
/** The catalogue has more. */
const URLS = {
  good: [
    ...["https://hooks.test", "https://hooks.test:8443/a?b=c"],
    ...["http://127.1.2.3:8080/", "http://[::1]/x", "http://localhost:8080/"],
  ],
  bad: [
    ...["http://hooks.test/LEAKED", "http://localhost.hooks.test/", "no URL"],
    ...["http://127.0.0.1.hooks.test/", "http://hooks.test/?127.0.0.1"],
    ...["ftp://127.0.0.1/", "//hooks.test/LEAKED", "https://", " "],
    SLACK.replace("https", "http"),
  ],
  withUser: ["https://LEAKED@hooks.test/", "http://:LEAKED@127.0.0.1/"],
};
const SECRETS = {
  good: [12, 13, 14, 64].map((length) => `whsec_${btoa("x".repeat(length))}`)
    .flatMap((secret) => [secret, secret.replace(/=+$/, "")]),
  bad: [
    ...["whsec_", "whsec_no-base64-LEAKED-at-all", btoa("x".repeat(24))],
    ...[" ", "\n", "="].map((end) => NOTIFICATION_SECRET + end),
    ...[NOTIFICATION_SECRET.slice(0, -3), `whsec_${btoa("12345678901")}`],
    `whsec_${btoa("1234567890")}${btoa("12345678")}`,
  ],
};

type Refused = [name: string, says: string, bad: Values, good?: string[]];
/** What refuses settings, those it needs, and values of each. */
const REFUSED: [read: (env: Environment) => unknown, Environment, Refused[]][] =
  [
    [readConfig, ENV, [
      ["SUPABASE_URL", "is not set", ["", undefined]],
      [TOLERANCE, WHOLE_NUMBER, NUMBERS],
      ["MAX_BODY_BYTES", WHOLE_NUMBER, NUMBERS],
      [UNMAPPED, "must be fail or ignore", ["Ignore", "ignore ", "true", "1"]],
      [ONCE, "must be true or false", ["yes", "1", "TRUE", " true", "on"]],
      [KEYS, "must be a JSON", ["LEAKED", CUT, '"LEAKED"', "null", "1"]],
    ]],
    [(env) => readConfig({ ...ENV, [KEYS]: env["KEYS"] }), {}, [
      ["the project's secret key", "contains a line break", BROKEN_KEY],
    ]],
    [readConfig, { SUPABASE_URL: ENV.SUPABASE_URL }, [
      [`${KEYS} (or SUPABASE_SERVICE_ROLE_KEY)`, "is not set", [""]],
    ]],
    [choose, WEBHOOK, [
      ["NOTIFICATION_URL", HTTPS, URLS.bad, URLS.good],
      ["NOTIFICATION_URL", NO_USER, URLS.withUser],
      ["NOTIFICATION_SIGNING_SECRET", "is not set", [""]],
      ["NOTIFICATION_SIGNING_SECRET", "must be", SECRETS.bad, SECRETS.good],
    ]],
    [choose, { ALERT_URL: SLACK, ALERT_SIGNING_SECRET: NOTIFICATION_SECRET }, [
      ["ALERT_URL", HTTPS, URLS.bad, URLS.good],
    ]],
    [choose, { ALERT_URL: "https://ops.test/LEAKED" }, [
      ["ALERT_SIGNING_SECRET", "is not set", [""]],
      ["ALERT_SIGNING_SECRET", "must be", SECRETS.bad, SECRETS.good],
    ]],
    [choose, EMAIL, [
      ["NOTIFICATION_FROM", "is not set", [""], ["a@example.com"]],
      ["RESEND_API_KEY", "contains", ["re_LEAKED\nre_x", "re_LEAKED\0"]],
      ["EMAIL_REQUESTS_PER_SECOND", WHOLE_NUMBER, NUMBERS, ["1", ""]],
    ]],
  ];
Deno.test("a wrong setting is refused by its name, without its value if that is secret", () => {
  for (const [read, env, settings] of REFUSED) {
    for (const [name, says, bad, good = []] of settings) {
      for (const value of good) read({ ...env, [name]: value });
      for (const value of bad) {
        const key = name.startsWith("the ") ? "KEYS" : name;
        const start = () => read({ ...env, [key]: value });
        const refusal = `Cannot start: ${name} ${says}`;
        const { message } = assertThrows(start, Error, refusal);
        assert(!message.includes("LEAKED"), message);
      }
    }
  }
  // The receiving side can use the secrets as well.
  for (const secret of SECRETS.good) new Webhook(secret);
});

const SECRET = "dGhlLXNlY3JldC1vZi1wcm92aWRlci1hLTE";
const GOOD = {
  PROVIDER_A_SIGNING_SECRET: `whsec_${SECRET}=`,
  PROVIDER_B_SIGNING_SECRET: "the-secret-of-provider-b",
};

type Env = Record<string, string>;

async function readBoth(
  env: Env,
): Promise<[a: SignatureProvider, b: SignatureProvider]> {
  const [a, b, ...more] = await readProviders({ ...GOOD, ...env });
  assert(a && b);
  assertEquals([a.name, b.name, more], ["a", "b", []]);
  return [a, b];
}

const A = "provider-a-signature";
const secret = (value: string) => ({ PROVIDER_A_SIGNING_SECRET: value });
const header = (value: string) => ({ PROVIDER_A_SIGNATURE_HEADER: value });
const mode = (value: string) => ({ PROVIDER_A_MODE: value });
const scheme = (value: string) => ({ PROVIDER_A_SIGNATURE_SCHEME: value });
const STANDARD = scheme("standard-webhooks");
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
    const [{ header, scheme, mode, fault }, b] = await readBoth(env);
    const text = JSON.stringify(env);
    assertEquals([header, scheme, mode, fault], [...expected, undefined], text);
    assertEquals([b.header, b.scheme], ["provider-b-signature", hmacSha256Hex]);
  }
  const secrets = ["one", "two", "three"].map((name) => `whsec_number_${name}`);
  const [a, b] = await readBoth(secret(secrets.join()));
  assertEquals([a.keys.length, b.keys.length], [3, 1]);
  for (const key of [...a.keys, ...b.keys]) {
    assertEquals([key.extractable, key.usages], [false, ["verify"]]);
  }
});

const [LOCAL_A, LOCAL_B] = Object.values(LOCAL_SIGNING_SECRETS);
const PLACEHOLDER = "contains a placeholder";
const TOO_SHORT = "contains a secret of fewer than 16";
const EMPTY = "contains an empty secret";
/** What is said of provider A's secrets that are refused. */
const BAD_SECRETS: [says: string, ...secrets: string[]][] = [
  ["is not set", "", " \t\n"],
  [EMPTY, "whsec_", `${SECRET},whsec_`, `${SECRET},`, `,${SECRET}`, ","],
  ["has white space", ` ${SECRET}`, `${SECRET}\u00a0`, `${SECRET}, ${SECRET}`],
  [TOO_SHORT, "123456789abcdef", `x,${SECRET}`, "whsec_123456789"],
  [PLACEHOLDER, "whsec_...", "…", "whsec_<live>", "<new>,<old>"],
  [PLACEHOLDER, "changeme", "CHANGE_ME_IN_PRODUCTION", "replace-me-with-it"],
  [PLACEHOLDER, "your_webhook_secret", "whsec_placeholder_0123456789"],
  [PLACEHOLDER, "x".repeat(24), "whsec_xxxxxxxxxx"],
  ["contains the local stack's secret", `${LOCAL_A}`, `${SECRET},${LOCAL_B}`],
];
const shared = "one-secret-for-both-of-them";
const both = (a: string, b: string) => {
  return { ...secret(a), PROVIDER_B_SIGNING_SECRET: b };
};

const TWICE = "provider-b-signature is also that of another provider";
const MISFIT = "A_SIGNING_SECRET does not fit the signature scheme";
/** Of whom something is said, and the settings. */
const FAULTS: [of: "a" | "ab", says: string, environments: Env[]][] = [
  ...BAD_SECRETS.map(([says, ...secrets]): ["a", string, Env[]] => {
    return ["a", `A_SIGNING_SECRET ${says}`, secrets.map(secret)];
  }),
  ["a", "A_MODE must be one of live, test", ["Live", " live"].map(mode)],
  [
    "a",
    "A_SIGNATURE_SCHEME must be one of",
    ["rsa", "constructor"].map(scheme),
  ],
  [
    "a",
    "A_SIGNATURE_HEADER must be the name",
    ["a b", "x:", "sïg"].map(header),
  ],
  ["a", "A_SIGNATURE_HEADER must end", [{ ...STANDARD, ...header("x-sig") }]],
  [
    "a",
    MISFIT,
    [`${SECRET}=`, `whsec_${SECRET}=,${SECRET}`]
      .map((value) => ({ ...STANDARD, ...secret(value) })),
  ],
  ["ab", "_SIGNING_SECRET is not set", [both("", "")]],
  ["ab", "_SIGNING_SECRET share a secret", [
    both(`${SECRET},${shared}`, shared),
    both(shared, `the-secret-of-provider-b,${shared},${SECRET}`),
  ]],
  ["ab", TWICE, [header("Provider-B-Signature")]],
];
Deno.test("readProviders() refuses the provider that has a fault, or both, and serves the other", async () => {
  for (const [of, says, environments] of FAULTS) {
    for (const env of environments) {
      const text = JSON.stringify(env);
      for (const { name, header, fault, keys } of await readBoth(env)) {
        const isRefused = of.includes(name);
        assertEquals(
          [keys.length, !!fault],
          isRefused ? [0, true] : [1, false],
        );
        if (isRefused) assert(fault?.includes(says), `${fault} for ${text}`);
        const repeated = [SECRET.slice(0, 8), shared, "the-secret"]
          .filter((secret) => fault?.includes(secret));
        assertEquals(repeated, [], "The secret is repeated");
        // A header must be able to have the name.
        new Headers({ [header]: "" });
      }
    }
  }
});

Deno.test("readProviders() takes 16 characters, what only resembles a placeholder, and the local stack's secrets with its key alone", async () => {
  const values = [
    ...["123456789abcdefg", "whsec_123456789a", "whsec_xxxxxxxxxy"],
    ...["aaaaaaaaaaaaaaab", "Zq81.Lm7..Tt0aWd3", "youryouryouryour"],
  ];
  for (const value of values) {
    const [{ fault, keys }] = await readBoth(secret(value));
    assertEquals([fault, keys.length], [undefined, 1], value);
  }
  const local = (await localKeys()).secret;
  const others = [[], ["sb_secret_other"], [`${local}x`], [`x${local}`]];
  for (const keys of [[local], ["sb_secret_other", local], ...others]) {
    const key = { [KEYS]: JSON.stringify({ ...keys }) };
    for (const one of await readBoth({ ...LOCAL_SIGNING_SECRETS, ...key })) {
      const isFault = one.fault?.includes("the local stack's secret") ?? false;
      assertEquals(isFault, !keys.includes(local), keys.join());
    }
  }
});
