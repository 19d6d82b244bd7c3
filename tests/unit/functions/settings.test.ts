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
const URLS = {
  good: [
    ...["https://hooks.test", "https://hooks.test:8443/a?b=c"],
    ...["http://127.1.2.3:8080/", "http://[::1]/x", "http://localhost:8080/"],
  ],
  // The catalogue has more.
  bad: [
    ...["http://hooks.test/LEAKED", "http://127.0.0.1.hooks.test/", "https://"],
    ...["http://hooks.test/?127.0.0.1", SLACK.replace("https", "http")],
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
const SVIX = { ...STANDARD, ...header("Svix-Signature") };
const ODD_NAME = "!#$%&'*+.^_`|~-x1";
const bytes = (count: number) => `whsec_${btoa("s".repeat(count))}`;
const standard = (value: string) => ({ ...STANDARD, ...secret(value) });

const DEFAULT = { header: A, scheme: stripe, mode: "any", keys: 1 };
const OF_STANDARD = { header: "webhook-signature", scheme: standardWebhooks };
/** What differs from the defaults of provider A, and by which settings. */
const READ: [differs: object, ...environments: Env[]][] = [
  [{}, {}, { ...header(""), ...mode(""), ...scheme("") }, mode("any")],
  [{ mode: "test" }, mode("test")],
  [{ mode: "live" }, mode("live")],
  [{ scheme: hmacSha256Hex }, scheme("hmac-sha256-hex")],
  [OF_STANDARD, STANDARD, ...[16, 17, 18, 64].map(bytes).map(standard)],
  [{ ...OF_STANDARD, header: "svix-signature" }, SVIX],
  [{ header: ODD_NAME }, header(ODD_NAME.toUpperCase())],
  [{ keys: 3 }, secret("whsec_number_one,whsec_number_two,the-third-secret")],
  // 16 characters, and what only resembles a placeholder.
  [{}, ...["123456789abcdefg", "whsec_123456789a"].map(secret)],
  [{}, ...["whsec_xxxxxxxxxy", "aaaaaaaaaaaaaaab"].map(secret)],
  [{}, ...["Zq81.Lm7..Tt0aWd3", "youryouryouryour"].map(secret)],
];
Deno.test("readProviders() reads the settings of a provider, or its defaults", async () => {
  for (const [differs, ...environments] of READ) {
    for (const env of environments) {
      const [{ name: _, keys, ...read }, b] = await readBoth(env);
      const expected = { ...DEFAULT, ...differs };
      assertEquals<unknown>({ ...read, keys: keys.length }, expected);
      assertEquals(b.scheme, hmacSha256Hex);
      for (const key of [...keys, ...b.keys]) {
        assertEquals([key.extractable, key.usages], [false, ["verify"]]);
      }
    }
  }
});

const [LOCAL_A, LOCAL_B] = Object.values(LOCAL_SIGNING_SECRETS);
const EMPTY = "A_SIGNING_SECRET contains an empty secret";
const SPACE = "A_SIGNING_SECRET has white space";
const PLACEHOLDER = "A_SIGNING_SECRET contains a placeholder";
const TOO_SHORT = "A_SIGNING_SECRET contains a secret of fewer than 16";
const PUBLIC = "A_SIGNING_SECRET contains the local stack's secret";
const MISFIT = "A_SIGNING_SECRET does not fit the signature scheme";
/** What is said of a setting of provider A, beside others, and its values. */
const FAULTS_OF_A: [says: string, beside: Env, ...values: string[]][] = [
  ["A_SIGNING_SECRET is not set", {}, "", " \t\n"],
  [EMPTY, {}, "whsec_", `${SECRET},whsec_`, `${SECRET},`, `,${SECRET}`, ","],
  [SPACE, {}, ` ${SECRET}`, `${SECRET}\u00a0`, `${SECRET}, ${SECRET}`],
  [TOO_SHORT, {}, "123456789abcdef", `x,${SECRET}`, "whsec_123456789"],
  [PLACEHOLDER, {}, "whsec_...", "…", "whsec_<live>", "<new>,<old>"],
  [PLACEHOLDER, {}, "changeme", "CHANGE_ME_IN_PRODUCTION", "x".repeat(24)],
  [PLACEHOLDER, {}, "replace-me-with-it", "your_webhook_secret"],
  [PLACEHOLDER, {}, "whsec_placeholder_0123456789", "whsec_xxxxxxxxxx"],
  [PUBLIC, {}, LOCAL_A!, `${SECRET},${LOCAL_B}`],
  [MISFIT, STANDARD, `${SECRET}=`, `whsec_${SECRET}=,${SECRET}`, bytes(15)],
  [MISFIT, STANDARD, `${bytes(17)}=`, `${bytes(17)}\n=`, `${bytes(15)}-_=`],
  [MISFIT, STANDARD, bytes(17).slice(0, -1)],
  ["A_MODE must be one of live, test", {}, "Live", " live"],
  ["A_SIGNATURE_SCHEME must be one of", {}, "rsa", "constructor"],
  ["A_SIGNATURE_HEADER must be the name", {}, "a b", "x:", "sïg"],
  ["A_SIGNATURE_HEADER must end", STANDARD, "x-sig"],
];
const shared = "one-secret-for-both-of-them";
const both = (a: string, b: string) => {
  return { ...secret(a), PROVIDER_B_SIGNING_SECRET: b };
};
const SHARED = "_SIGNING_SECRET share a secret";
const FAULTS_OF_BOTH: [says: string, Env][] = [
  ["_SIGNING_SECRET is not set", both("", "")],
  [SHARED, both(`${SECRET},${shared}`, shared)],
  [SHARED, both(shared, `the-secret-of-provider-b,${shared},${SECRET}`)],
  [
    "provider-b-signature is also that of another provider",
    header("Provider-B-Signature"),
  ],
];

/** Checks which providers are refused, and what is said. */
async function checkRefused(of: "a" | "ab", says: string, env: Env) {
  for (const { name, header, fault, keys } of await readBoth(env)) {
    const isRefused = of.includes(name);
    const text = `${JSON.stringify(env)}: ${fault}`;
    assertEquals(keys.length, isRefused ? 0 : 1, text);
    assertEquals(fault?.includes(says), isRefused || undefined, text);
    const isRepeated = fault?.includes(SECRET.slice(0, 8)) ||
      fault?.includes(shared) || fault?.includes("the-secret");
    assert(!isRepeated, text);
    // A header must be able to have the name.
    new Headers({ [header]: "" });
  }
}
Deno.test("readProviders() refuses the provider that has a fault, or both, and serves the other", async () => {
  for (const [says, beside, ...values] of FAULTS_OF_A) {
    const name = `PROVIDER_${says.split(" ")[0]}`;
    for (const value of values) {
      await checkRefused("a", says, { ...beside, [name]: value });
    }
  }
  for (const [says, env] of FAULTS_OF_BOTH) await checkRefused("ab", says, env);
});

Deno.test("readProviders() takes the local stack's secrets with its key alone", async () => {
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
