import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../../supabase/functions/_shared/billing/environment.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { NOTIFICATION_SECRET } from "../../support/notified.ts";
import { SLACK } from "./fixtures.ts";

function choose(env: Environment) {
  const logged: string[] = [];
  const refuse = () => JSON.parse("Nothing is to be sent here");
  const options = { fetch: refuse, clock: Date.now };
  const channel = chooseChannel(env, {
    ...options,
    addressOf: refuse,
    log: (level, message) => logged.push(`${level}: ${message}`),
  });
  const alerts = chooseAlertChannel(env, options) !== undefined;
  return {
    isSet: channel !== undefined,
    rate: channel?.perSecond,
    alerts,
    logged,
  };
}

const NOTHING = {
  isSet: false,
  rate: undefined,
  alerts: false,
  logged: [
    "warn: no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY",
  ],
};
const BY_URL = { isSet: true, logged: [] };
const BY_EMAIL = { isSet: true, rate: 2, logged: [] };
const UNUSED =
  "warn: RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them";

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

const NO_HTTPS = "must be an https URL";
const WITH_USER = "must not contain a user name or password";
const BAD_URLS = [
  "http://hooks.test/LEAKED",
  "http://127.0.0.1.hooks.test/",
  "https://",
  "http://hooks.test/?127.0.0.1",
  SLACK.replace("https", "http"),
];
const URLS = [
  "https://hooks.test",
  "https://hooks.test:8443/a?b=c",
  "http://127.1.2.3:8080/",
  "http://[::1]/x",
  "http://localhost:8080/",
];
const SLACK_URLS = [
  SLACK,
  "https://hooks.slack-gov.com/services/T0/B0/x",
  "HTTPS://Hooks.Slack.com:443/services/T0/B0/x",
];
const SECRETS = [12, 13, 14, 64]
  .map((length) => `whsec_${btoa("x".repeat(length))}`)
  .flatMap((secret) => [secret, secret.replace(/=+$/, "")]);
const BAD_SECRETS = [
  "whsec_",
  "whsec_no-base64-LEAKED-at-all",
  btoa("x".repeat(24)),
  `${NOTIFICATION_SECRET}\n`,
  NOTIFICATION_SECRET.slice(0, -3),
  `whsec_${btoa("12345678901")}`,
  `whsec_${btoa("1234567890")}${btoa("12345678")}`,
];

/**
 * A setting, those beside it, and its values; what they change, or why they are
 * refused.
 */
const SETTINGS: [
  name: string,
  beside: Environment,
  expected: object | string,
  ...values: string[],
][] = [
  ["NOTIFICATION_URL", WEBHOOK, BY_URL, ...URLS],
  ["NOTIFICATION_URL", WEBHOOK, {}, ""],
  ["NOTIFICATION_URL", WEBHOOK, NO_HTTPS, ...BAD_URLS, "ftp://127.0.0.1/"],
  ["NOTIFICATION_URL", WEBHOOK, WITH_USER, "https://LEAKED@hooks.test/"],
  ["NOTIFICATION_URL", WEBHOOK, WITH_USER, "http://:LEAKED@127.0.0.1/"],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, BY_URL, ...SECRETS],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, "is not set", ""],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, "must be", ...BAD_SECRETS],
  ["RESEND_API_KEY", WEBHOOK, { isSet: true, logged: [UNUSED] }, "x"],
  ["RESEND_API_KEY", EMAIL, BY_EMAIL, "re_unit", "re_unit\n"],
  ["RESEND_API_KEY", EMAIL, "contains", "re_LEAKED\nre_x", "re_LEAKED\0"],
  ["RESEND_BASE_URL", EMAIL, NO_HTTPS, ...BAD_URLS],
  ["NOTIFICATION_FROM", EMAIL, BY_EMAIL, "a@example.com"],
  ["NOTIFICATION_FROM", EMAIL, "is not set", ""],
  ["EMAIL_REQUESTS_PER_SECOND", EMAIL, { ...BY_EMAIL, rate: 10 }, "10"],
  ["EMAIL_REQUESTS_PER_SECOND", EMAIL, "must be a whole number above 0", "0"],
  ["ALERT_URL", ALERTS, {}, ""],
  ["ALERT_URL", ALERTS, { alerts: true }, ...URLS],
  ["ALERT_URL", {}, { alerts: true }, ...SLACK_URLS],
  ["ALERT_URL", ALERTS, NO_HTTPS, BAD_URLS[0]!],
  ["ALERT_SIGNING_SECRET", ALERTS_TO, "is not set. supabase/functions", ""],
  ["ALERT_SIGNING_SECRET", ALERTS_TO, "must be", ...BAD_SECRETS],
];
Deno.test("the settings choose the channels, or are refused without their values", () => {
  assertEquals(choose({}), NOTHING);
  for (const [name, beside, expected, ...values] of SETTINGS) {
    for (const value of values) {
      const read = () => choose({ ...beside, [name]: value });
      if (typeof expected === "object") {
        assertEquals<unknown>(
          read(),
          { ...NOTHING, ...expected },
          `${name}=${value}`,
        );
        continue;
      }
      const refusal = assertThrows(
        read,
        Error,
        `Cannot start: ${name} ${expected}`,
      );
      assert(!refusal.message.includes("LEAKED"), refusal.message);
    }
  }
  // The receiving side can use the secrets as well.
  for (const secret of SECRETS) new Webhook(secret);
});
