/** The settings of both functions: what is read, and what is refused. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../../supabase/functions/_shared/billing/environment.ts";
import { readConfig } from "../../../supabase/functions/_shared/billing/settings/deployment.ts";
import {
  LOCAL_SECRET_KEY as LOCAL_KEY,
  LOCAL_SIGNING_SECRETS,
} from "../../../supabase/functions/billing-webhook/signatures/local_stack.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import {
  PROVIDERS,
  readFormatName,
  readOfEach,
  readProviderSettings,
} from "../../../supabase/functions/_shared/billing/settings/providers.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/signatures/providers.ts";
import {
  hmacSha256Hex,
  paddle,
  polar,
  standardWebhooks,
  stripe,
} from "../../../supabase/functions/billing-webhook/signatures/schemes.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { NOTIFICATION_SECRET } from "../../support/notified.ts";
import { SLACK } from "./fixtures.ts";

const KEYS = "SUPABASE_SECRET_KEYS";
const TOLERANCE = "SIGNATURE_TOLERANCE_SECONDS";
const UNMAPPED = "UNMAPPED_SUBSCRIPTIONS";
const ONCE = "NOTIFY_ONCE_PER_INVOICE";
const TYPES = "HANDLE_EVENT_TYPES";
const LONG = "a".repeat(100);
const ALIKE = "a".repeat(60);
const handled = (types: string[], fault?: string) => ({
  handledTypes: {
    types: new Set(types),
    ...(fault && { fault: `HANDLE_EVENT_TYPES: ${fault}` }),
  },
});
const PER_SECOND = "EMAIL_REQUESTS_PER_SECOND";

const ENV = {
  SUPABASE_URL: "http://127.0.0.1:54321",
  [KEYS]: '{"default":"sb_secret_new"}',
  SUPABASE_SERVICE_ROLE_KEY: "legacy",
};
const WEBHOOK = {
  NOTIFICATION_URL: "https://hooks.test/LEAKED",
  NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
};
const EMAIL = {
  RESEND_API_KEY: "re_LEAKED",
  NOTIFICATION_FROM: "Billing <billing@example.com>",
};
const ALERTS = { ALERT_SIGNING_SECRET: NOTIFICATION_SECRET };
// Not Slack, which needs no secret.
const ALERTS_TO = { ALERT_URL: "https://hooks.slack.com.x.test/LEAKED" };

function read(env: Environment) {
  const logged: string[] = [];
  const refuse = () => JSON.parse("Nothing is to be sent here");
  const options = { fetch: refuse, clock: Date.now };
  const channel = chooseChannel(env, {
    ...options,
    addressOf: refuse,
    log: (level, message) => logged.push(`${level}: ${message}`),
  });
  const alerts = chooseAlertChannel(env, options) !== undefined;
  const isSet = channel !== undefined;
  const channels = { isSet, rate: channel?.perSecond, alerts };
  return { ...readConfig(env), ...channels, logged };
}

const DEFAULTS: ReturnType<typeof read> = {
  supabaseUrl: "http://127.0.0.1:54321",
  secretKey: "sb_secret_new",
  toleranceSeconds: 300,
  maxBodyBytes: 1_048_576,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
  handledTypes: { types: new Set() },
  accountFromCheckout: false,
  planItem: "first",
  notify: new Set(["payment_failed"]),
  ...{ isSet: false, rate: undefined, alerts: false },
  logged: [
    "warn: no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY",
  ],
};
const BY_URL = { isSet: true, logged: [] };
const BY_EMAIL = { isSet: true, rate: 2, logged: [] };
const UNUSED =
  "warn: RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them";

const NUMBERS = ["0", "-1", "1.5", "300s", "0300", "1".repeat(11)];
const CUT = '{"default":"LEAKED';
const NO_NUMBER = "must be a whole number above 0";
const NO_HTTPS = "must be an https URL";
const WITH_USER = "must not contain a user name or password";
const BROKEN = "the project's secret key contains a line break";
const NO_KEY = "(or SUPABASE_SERVICE_ROLE_KEY) is not set";
// The catalogue has more.
const BAD_URLS = [
  ...["http://hooks.test/LEAKED", "http://127.0.0.1.hooks.test/", "https://"],
  ...["http://hooks.test/?127.0.0.1", SLACK.replace("https", "http")],
];
const URLS = [
  ...["https://hooks.test", "https://hooks.test:8443/a?b=c"],
  ...["http://127.1.2.3:8080/", "http://[::1]/x", "http://localhost:8080/"],
];
const SLACK_URLS = [
  ...[SLACK, "https://hooks.slack-gov.com/services/T0/B0/x"],
  "HTTPS://Hooks.Slack.com:443/services/T0/B0/x",
];
const SECRETS = [12, 13, 14, 64]
  .map((length) => `whsec_${btoa("x".repeat(length))}`)
  .flatMap((secret) => [secret, secret.replace(/=+$/, "")]);
const BAD_SECRETS = [
  ...["whsec_", "whsec_no-base64-LEAKED-at-all", btoa("x".repeat(24))],
  ...[`${NOTIFICATION_SECRET}\n`, NOTIFICATION_SECRET.slice(0, -3)],
  `whsec_${btoa("12345678901")}`,
  `whsec_${btoa("1234567890")}${btoa("12345678")}`,
];

/**
 * A setting, those beside it, and its values; what they change, or why they are
 * refused.
 */
const SETTINGS: [
  ...[name: string, beside: Environment, expected: object | string],
  ...values: (string | undefined)[],
][] = [
  ["SUPABASE_URL", {}, "is not set", "", undefined],
  [TOLERANCE, {}, {}, "", undefined],
  [TOLERANCE, {}, { toleranceSeconds: 1 }, "1"],
  [TOLERANCE, {}, NO_NUMBER, ...NUMBERS],
  ["MAX_BODY_BYTES", {}, { maxBodyBytes: 9_999_999_999 }, "9999999999"],
  ["MAX_BODY_BYTES", {}, NO_NUMBER, "0"],
  [UNMAPPED, {}, {}, "", "fail"],
  [UNMAPPED, {}, { unmappedSubscriptions: "ignore" }, "ignore"],
  [UNMAPPED, {}, "must be fail or ignore", "Ignore", "ignore ", "true", "1"],
  [ONCE, {}, { oncePerInvoice: true }, "true"],
  [ONCE, {}, "must be false or true", "yes", "1", "TRUE", " true"],
  [
    "NOTIFY",
    {},
    { notify: new Set(["ended", "recovered"]) },
    "ended, recovered",
  ],
  ["NOTIFY", {}, "must list some of payment_failed, trial", "x", "ended,", "*"],
  ["PLAN_ITEM", {}, { planItem: "licensed" }, "licensed"],
  ["PLAN_ITEM", {}, "must be first or licensed", "metered", "Licensed"],
  ["ACCOUNT_FROM_CHECKOUT", {}, { accountFromCheckout: true }, "true"],
  [TYPES, {}, {}, "", undefined],
  [TYPES, {}, handled(["a.b", "a.c-1_2"]), "a.b,a.c-1_2", " a.b ,a.c-1_2,a.b "],
  [TYPES, {}, handled([LONG]), LONG],
  [TYPES, {}, handled([], '"A.b" is not an event type'), "A.b"],
  [TYPES, {}, handled(["a.b"], '"" is not an event type'), "a.b,"],
  [
    ...[TYPES, {}, handled([], `"${LONG}" is not an event type`)] as const,
    `${LONG}a`,
  ],
  [
    ...[TYPES, {}] as const,
    handled(
      ["a.b", "c"],
      '"x y" is not an event type; a.b and a_b would have the same function',
    ),
    "a.b,x y,c,a_b",
  ],
  // Postgres cuts a name off.
  [
    ...[TYPES, {}] as const,
    handled([ALIKE], `${ALIKE} and ${ALIKE}2 would have the same function`),
    `${ALIKE},${ALIKE}2`,
  ],
  [KEYS, {}, { secretKey: "legacy" }, undefined, "", "{}", "[]", '{"a":1}'],
  [KEYS, {}, { secretKey: "legacy" }, '{"default":""}', '{"default":null}'],
  [KEYS, {}, { secretKey: "two" }, '{"one":"one","default":"two"}'],
  [KEYS, {}, { secretKey: "one" }, '{"":"","one":"one","two":"two"}'],
  // White space around a key is no fault.
  [KEYS, {}, { secretKey: "one\n" }, '{"default":"one\\n"}'],
  [KEYS, {}, BROKEN, `${CUT}\\nx"}`, `${CUT} \\r\\n x"}`, `${CUT}\\u0000"}`],
  [KEYS, {}, "must be a JSON", "LEAKED", CUT, '"LEAKED"', "null", "1"],
  [KEYS, { SUPABASE_SERVICE_ROLE_KEY: "" }, NO_KEY, ""],
  ["NOTIFICATION_URL", WEBHOOK, BY_URL, ...URLS],
  ["NOTIFICATION_URL", WEBHOOK, {}, ""],
  ["NOTIFICATION_URL", WEBHOOK, NO_HTTPS, ...BAD_URLS, "ftp://127.0.0.1/"],
  ["NOTIFICATION_URL", WEBHOOK, WITH_USER, "https://LEAKED@hooks.test/"],
  ["NOTIFICATION_URL", WEBHOOK, WITH_USER, "http://:LEAKED@127.0.0.1/"],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, BY_URL, ...SECRETS],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, "is not set", ""],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, "must be", ...BAD_SECRETS],
  ["RESEND_API_KEY", { ...EMAIL, ...WEBHOOK }, {
    ...{ isSet: true, logged: [UNUSED] },
  }, "x"],
  ["RESEND_API_KEY", EMAIL, BY_EMAIL, "re_unit", "re_unit\n"],
  ["RESEND_API_KEY", EMAIL, "contains", "re_LEAKED\nre_x", "re_LEAKED\0"],
  ["NOTIFICATION_FROM", EMAIL, BY_EMAIL, "a@example.com"],
  ["NOTIFICATION_FROM", EMAIL, "is not set", ""],
  [PER_SECOND, EMAIL, { ...BY_EMAIL, rate: 10 }, "10"],
  [PER_SECOND, EMAIL, NO_NUMBER, "0"],
  ["ALERT_URL", ALERTS, {}, ""],
  ["ALERT_URL", ALERTS, { alerts: true }, ...URLS],
  ["ALERT_URL", {}, { alerts: true }, ...SLACK_URLS],
  ["ALERT_URL", ALERTS, NO_HTTPS, BAD_URLS[0]],
  ["ALERT_SIGNING_SECRET", ALERTS_TO, { alerts: true }, ...SECRETS],
  ["ALERT_SIGNING_SECRET", ALERTS_TO, "is not set", ""],
  ["ALERT_SIGNING_SECRET", ALERTS_TO, "must be", ...BAD_SECRETS],
];
Deno.test("a setting has its documented default, or is refused by its name, without its value if that is secret", () => {
  assertEquals(read(ENV), DEFAULTS);
  for (const [name, beside, expected, ...values] of SETTINGS) {
    for (const value of values) {
      const env = { ...ENV, ...beside, [name]: value };
      if (typeof expected === "string") {
        const says = expected.startsWith("the ")
          ? expected
          : `${name} ${expected}`;
        const start = () => read(env);
        const refusal = assertThrows(start, Error, `Cannot start: ${says}`);
        assert(!refusal.message.includes("LEAKED"), refusal.message);
      } else {
        const all = { ...DEFAULTS, ...expected };
        assertEquals<unknown>(read(env), all, `${name}=${value}`);
      }
    }
  }
  // The receiving side can use the secrets as well.
  for (const secret of SECRETS) new Webhook(secret);
});

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
  return providers.map(({ name: _, keys, fault, ...provider }) => {
    for (const key of keys) {
      assertEquals([key.extractable, key.usages], [false, ["verify"]]);
    }
    // A header must be able to have the name.
    for (const header of provider.headers) new Headers({ [header]: "" });
    if (fault === undefined) return { ...provider, keys: keys.length };
    const isRepeated = [SECRET.slice(0, 8), SECRET_B, SHARED]
      .some((secret) => fault.includes(secret));
    assertEquals([isRepeated, keys.length], [false, 0], fault);
    return fault;
  });
}

const COMMON = {
  ...{ mode: "any", connect: false, acknowledges: false, keys: 1 },
  format: FORMATS.stripe as object,
};
const OWN_A = "provider-a-signature";
const OF_A = { ...COMMON, headers: [OWN_A, STRIPE], scheme: stripe };
const OF_B = {
  ...{ ...COMMON, headers: ["provider-b-signature"], scheme: hmacSha256Hex },
};
const OF_STANDARD = {
  ...{ headers: ["webhook-signature"], scheme: standardWebhooks },
};
const OF_SVIX = { ...OF_STANDARD, headers: ["svix-signature"] };
const HEX_A = { headers: [OWN_A], scheme: hmacSha256Hex };
const STANDARD = { PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" };
const ODD_NAME = "!#$%&'*+.^_`|~-x1";
const bytes = (count: number) => `whsec_${btoa("s".repeat(count))}`;
const LOCAL = Object.values(LOCAL_SIGNING_SECRETS);
const TOO_SHORT = "contains a secret of fewer than 16";
const PLACEHOLDER = "contains a placeholder";
const EMPTY = "contains an empty secret";
const SPACE = "has white space";
const PUBLIC = "contains the local stack's secret";
const MISFIT = "does not fit the signature scheme";

Deno.test("webhook and worker read a further provider alike", async () => {
  const rows: object[] = PROVIDERS as never;
  rows.push({ name: "z", header: "provider-z-signature", scheme: "stripe" });
  try {
    const env = {
      ...GOOD,
      ...{ PROVIDER_Z_SIGNING_SECRET: SECRET, PROVIDER_Z_FORMAT: "paddle" },
      ...{ PROVIDER_Z_MODE: "live", PROVIDER_Z_CONNECT: "allow" },
      PROVIDER_Z_FAILURES: "acknowledge",
    };
    const settings = {
      ...{ format: "paddle", mode: "live", connect: true, acknowledges: true },
    };
    assertEquals<unknown>(readOfEach(env, readProviderSettings)["z"], settings);
    const { keys, name: _, ...signer } = (await readProviders(env)).at(-1)!;
    assertEquals<unknown>([signer, keys.length], [{
      ...{ ...settings, format: FORMATS.paddle, scheme: paddle },
      headers: ["paddle-signature"],
    }, 1]);
    // Of one that is wrong, the worker knows nothing, and the webhook a fault.
    const wrong = { ...env, PROVIDER_Z_FORMAT: "Paddle" };
    assertEquals(readOfEach(wrong, readFormatName)["z"], undefined);
    assert(
      (await readProviders(wrong)).at(-1)!.fault?.includes("Z_FORMAT must"),
    );
  } finally {
    rows.pop();
  }
});

/** As above, of a setting of provider A. */
const OF_PROVIDER: [
  ...[name: string, beside: Environment, expected: object | string],
  ...values: string[],
][] = [
  ["FORMAT", {}, {}, "", "stripe"],
  ["FORMAT", {}, {
    ...{ format: FORMATS.paddle, scheme: paddle },
    headers: ["paddle-signature"],
  }, "paddle"],
  // Either of the two kinds of keys.
  ["FORMAT", {}, {
    ...{ format: FORMATS.polar, scheme: polar, keys: 2 },
    headers: ["webhook-signature"],
  }, "polar"],
  ["FORMAT", {}, { ...OF_STANDARD, format: FORMATS.dodo }, "dodo"],
  ["FORMAT", {}, {
    ...{ format: FORMATS["lemon-squeezy"], scheme: hmacSha256Hex },
    headers: ["x-signature"],
  }, "lemon-squeezy"],
  ["FORMAT", {}, "must be stripe or paddle or polar", "Paddle", "toString"],
  ["MODE", {}, { mode: "test" }, "test"],
  ["MODE", {}, { mode: "live" }, "live"],
  ["MODE", {}, "must be any or live or test, not", "Live", " live"],
  ["CONNECT", {}, { connect: true }, "allow"],
  ["CONNECT", {}, "must be ignore or allow, not", "true", "Allow"],
  ["FAILURES", {}, { acknowledges: true }, "acknowledge"],
  ["FAILURES", {}, "must be reject or acknowledge, not", "accept", "200"],
  ["SIGNATURE_SCHEME", {}, HEX_A, "hmac-sha256-hex"],
  ["SIGNATURE_SCHEME", {}, OF_STANDARD, "standard-webhooks"],
  ["SIGNATURE_SCHEME", {}, "must be one of", "rsa", "constructor"],
  ["SIGNATURE_HEADER", {}, {}, ""],
  ["SIGNATURE_HEADER", {}, { headers: [ODD_NAME] }, ODD_NAME.toUpperCase()],
  ["SIGNATURE_HEADER", STANDARD, OF_SVIX, "Svix-Signature"],
  ["SIGNATURE_HEADER", {}, "must be the name", "a b", "x:", "sïg"],
  ["SIGNATURE_HEADER", STANDARD, "must end", "x-sig"],
  ["SIGNING_SECRET", {}, "is not set", "", " \t\n"],
  ["SIGNING_SECRET", {}, { keys: 3 }, `${SECRET},${SECRET}b,${SECRET}c`],
  ["SIGNING_SECRET", {}, EMPTY, "whsec_", `${SECRET},whsec_`, `${SECRET},`],
  ["SIGNING_SECRET", {}, EMPTY, `,${SECRET}`, ","],
  ["SIGNING_SECRET", {}, SPACE, ` ${SECRET}`, `${SECRET}\u00a0`],
  ["SIGNING_SECRET", {}, SPACE, `${SECRET}, ${SECRET}`],
  ["SIGNING_SECRET", {}, {}, "123456789abcdefg", "whsec_123456789a"],
  ["SIGNING_SECRET", {}, TOO_SHORT, "123456789abcdef", `x,${SECRET}`],
  ["SIGNING_SECRET", {}, PLACEHOLDER, "whsec_...", "…", "whsec_<live>"],
  ["SIGNING_SECRET", {}, PLACEHOLDER, "CHANGE_ME_IN_PRODUCTION", "changeme"],
  ["SIGNING_SECRET", {}, PLACEHOLDER, "replace-me-with-it", "x".repeat(24)],
  ["SIGNING_SECRET", {}, PLACEHOLDER, "your_secret", "whsec_placeholder_1"],
  // What only resembles a placeholder.
  ["SIGNING_SECRET", {}, {}, "whsec_xxxxxxxxxy", "aaaaaaaaaaaaaaab"],
  ["SIGNING_SECRET", {}, {}, "Zq81.Lm7..Tt0aWd3", "youryouryouryour"],
  // The local stack's, which are taken with its key alone.
  ["SIGNING_SECRET", { [KEYS]: `{"a":"x","b":"${LOCAL_KEY}"}` }, {}, ...LOCAL],
  ["SIGNING_SECRET", { [KEYS]: `{"a":"${LOCAL_KEY}x"}` }, PUBLIC, ...LOCAL],
  ["SIGNING_SECRET", { [KEYS]: `{"a":"x${LOCAL_KEY}"}` }, PUBLIC, ...LOCAL],
  ["SIGNING_SECRET", {}, PUBLIC, ...LOCAL, `${SECRET},${LOCAL[1]}`],
  ["SIGNING_SECRET", STANDARD, OF_STANDARD, ...[16, 17, 18, 64].map(bytes)],
  ["SIGNING_SECRET", STANDARD, MISFIT, `${SECRET}=`, `${bytes(16)},${SECRET}`],
  ["SIGNING_SECRET", STANDARD, MISFIT, bytes(15), `${bytes(17)}=`],
  ["SIGNING_SECRET", STANDARD, MISFIT, bytes(17).slice(0, -1)],
  ["SIGNING_SECRET", STANDARD, MISFIT, bytes(24).slice("whsec_".length)],
  ["SIGNING_SECRET", STANDARD, MISFIT, `${bytes(15)}-_=`, `${bytes(17)}\n=`],
  ["SIGNING_SECRET", { PROVIDER_A_SIGNATURE_SCHEME: "polar" }, {
    ...{ headers: ["webhook-signature"], scheme: polar, keys: 2 },
  }, bytes(16).replace("==", "")],
];
const both = (a: string, b: string) => ({
  ...{ PROVIDER_A_SIGNING_SECRET: a, PROVIDER_B_SIGNING_SECRET: b },
});
const OF_BOTH: [says: string, Environment][] = [
  ["_SIGNING_SECRET is not set", both("", "")],
  ["_SIGNING_SECRET share a secret", both(`${SECRET},${SHARED}`, SHARED)],
  ["_SIGNING_SECRET share a secret", both(SHARED, `${SECRET_B},${SHARED}`)],
];
Deno.test("readProviders() reads the settings of each provider, and refuses the one that has a fault, or both", async () => {
  assertEquals<unknown>(await readBoth({}), [OF_A, OF_B]);
  for (const [name, beside, expected, ...values] of OF_PROVIDER) {
    const variable = `PROVIDER_A_${name}`;
    for (const value of values) {
      const [a, b] = await readBoth({ ...beside, [variable]: value });
      assertEquals<unknown>(b, OF_B);
      if (typeof expected === "string") {
        assert(`${a}`.startsWith(`${variable} ${expected}`), `${a}: ${value}`);
      } else assertEquals<unknown>(a, { ...OF_A, ...expected }, value);
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
  for (const [says, env] of OF_BOTH) {
    for (const fault of await readBoth(env)) {
      assert(String(fault).includes(says), `${fault} and not ${says}`);
    }
  }
});
