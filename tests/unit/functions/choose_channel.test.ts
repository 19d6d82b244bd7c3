import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../../supabase/functions/_shared/billing/config.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";

const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";
const WEBHOOK = {
  NOTIFICATION_URL: "https://hooks.test/LEAKED",
  NOTIFICATION_SIGNING_SECRET: SECRET,
};
const EMAIL = {
  RESEND_API_KEY: "re_LEAKED",
  NOTIFICATION_FROM: "Billing <billing@example.com>",
};

/** Chooses both channels; nothing may be sent. */
function choose(env: Environment) {
  const lines: [string, string][] = [];
  const refuse = () => {
    throw new Error("Nothing is to be sent here");
  };
  const options = { fetch: refuse, clock: Date.now };
  const channel = chooseChannel(env, {
    ...options,
    addressOf: refuse,
    log: (level, message) => lines.push([level, message]),
  });
  const alerts = chooseAlertChannel(env, options);
  return { name: channel?.name, rate: channel?.perSecond, alerts, lines };
}

type Name = string | undefined;
type Rate = number | undefined;
const NONE =
  "no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY";
const UNUSED =
  "RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them";

Deno.test("chooseChannel() prefers a URL to e-mail, and warns if anything is missing or unused", () => {
  const cases: [env: Environment, name: Name, rate?: Rate, warn?: string][] = [
    [WEBHOOK, "webhook"],
    [EMAIL, "email", 2],
    [{ ...EMAIL, EMAIL_REQUESTS_PER_SECOND: "10" }, "email", 10],
    [{ ...EMAIL, RESEND_API_KEY: "re_unit\n" }, "email", 2],
    [{ ...EMAIL, ...WEBHOOK }, "webhook", undefined, UNUSED],
    [{}, undefined, undefined, NONE],
    [{ NOTIFICATION_URL: "", RESEND_API_KEY: "" }, undefined, undefined, NONE],
  ];
  for (const [env, name, rate, warning] of cases) {
    const { alerts: _, ...chosen } = choose(env);
    const lines = warning ? [["warn", warning] as [string, string]] : [];
    assertEquals(chosen, { name, rate, lines }, JSON.stringify(env));
  }
});

const SLACK = "https://hooks.slack.com/services/T0/B0/LEAKED";
Deno.test("chooseAlertChannel() takes a URL of Slack for Slack, without a secret", () => {
  const cases: [url: string, name: Name][] = [
    ["", undefined],
    [SLACK, "slack"],
    ["https://hooks.slack-gov.com/services/T0/B0/x", "slack"],
    ["HTTPS://Hooks.Slack.com:443/services/T0/B0/x", "slack"],
    ["https://ops.test/billing", "webhook"],
    ["http://127.0.0.1:8080/", "webhook"],
    ["https://hooks.slack.com.ops.test/services/x", "webhook"],
    ["https://hooksxslack.com/services/x", "webhook"],
    ["https://ops.test/hooks.slack.com/services/x", "webhook"],
  ];
  for (const [ALERT_URL, name] of cases) {
    const secret = name === "webhook" ? { ALERT_SIGNING_SECRET: SECRET } : {};
    assertEquals(
      choose({ ALERT_URL, ...secret }).alerts?.name,
      name,
      ALERT_URL,
    );
  }
});

const SECRETS = {
  good: [12, 13, 14, 24, 32, 64].map((length) => btoa("x".repeat(length)))
    .flatMap((base64) => [base64, base64.replace(/=+$/, "")])
    .map((base64) => `whsec_${base64}`),
  bad: [
    ...["", " ", "whsec_", SECRET.slice("whsec_".length), `${SECRET} `],
    ...[SECRET.replace("whsec_", "whpk_"), "whsec_no-base64-LEAKED-at-all"],
    ...[`${SECRET}\n`, SECRET.slice(0, -3), `${SECRET}=`],
    `whsec_${btoa("1234567890")}${btoa("12345678")}`,
    `whsec_${btoa("12345678901")}`,
  ],
};
const URLS = {
  good: [
    ...["https://hooks.test", "https://hooks.test:8443/a?b=c"],
    ...["http://127.0.0.1:8080/", "http://127.1.2.3/", "http://[::1]:8080/x"],
    "http://localhost:8080/hook",
  ],
  bad: [
    ...["http://hooks.test/LEAKED", "http://10.0.0.1/", "http://0.0.0.0/"],
    ...["http://localhost.hooks.test/", "http://127.0.0.1.hooks.test/"],
    ...["http://hooks.test/?127.0.0.1", "http://127.0.0.1@hooks.test/"],
    ...["http://[::2]/", "ftp://127.0.0.1/", "file:///etc/hosts", "no URL"],
    ...["data:text/plain,x", "hooks.test/LEAKED", "//hooks.test/x", "https://"],
    ...[" ", "https://LEAKED@hooks.test/", "https://user:pass@hooks.test/"],
    ...["https://:LEAKED@hooks.test/", "http://user:pass@127.0.0.1/"],
  ],
};

/** A setting, those it needs beside it, and values of it. */
const SETTINGS: [
  name: string,
  env: Environment,
  values: { good: string[]; bad: string[] },
][] = [
  ["NOTIFICATION_URL", WEBHOOK, URLS],
  ["ALERT_URL", { ALERT_SIGNING_SECRET: SECRET }, URLS],
  ["ALERT_URL", {}, { good: [SLACK], bad: [SLACK.replace("https", "http")] }],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, SECRETS],
  ["ALERT_SIGNING_SECRET", { ALERT_URL: "https://ops.test/LEAKED" }, SECRETS],
  ["NOTIFICATION_FROM", EMAIL, { good: ["a@example.com"], bad: [""] }],
  ["RESEND_API_KEY", EMAIL, {
    good: ["re_x"],
    bad: ["re_LEAKED\nre_x", "re_LEAKED\r\nre_x", "re_LEAKED\0"],
  }],
  ["EMAIL_REQUESTS_PER_SECOND", EMAIL, {
    good: ["1", ""],
    bad: ["0", "-1", "0.5", "two", "1e3"],
  }],
];
Deno.test("the channels refuse a wrong setting, and name it, not its value", () => {
  for (const [name, env, { good, bad }] of SETTINGS) {
    for (const value of good) choose({ ...env, [name]: value });
    for (const value of bad) {
      const { message } = assertThrows(
        () => choose({ ...env, [name]: value }),
        Error,
        `Cannot start: ${name} `,
      );
      assert(!message.includes("LEAKED"), message);
    }
  }
  // The receiving side can use the secrets as well.
  for (const secret of SECRETS.good) new Webhook(secret);
});
