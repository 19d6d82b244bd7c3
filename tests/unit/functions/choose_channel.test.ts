import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../../supabase/functions/_shared/billing/config.ts";
import type {
  Alert,
  Attempt,
  FailureOpened,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  chooseAlertChannel,
  chooseChannel,
} from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { OPENED, RESOLVED } from "./fixtures.ts";

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
  const lines: string[] = [];
  const refuse = () => JSON.parse("Nothing is to be sent here");
  const options = { fetch: refuse, clock: Date.now };
  const channel = chooseChannel(env, {
    ...options,
    addressOf: refuse,
    log: (level, message) => lines.push(`${level}: ${message}`),
  });
  const alerts = chooseAlertChannel(env, options);
  return { name: channel?.name, rate: channel?.perSecond, alerts, lines };
}

type Name = string | undefined;
type Rate = number | undefined;
const NONE =
  "warn: no notification channel is configured: notifications stay pending; set NOTIFICATION_URL or RESEND_API_KEY";
const UNUSED =
  "warn: RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them";

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
    const lines = warning ? [warning] : [];
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
    ["http://127.0.0.1:8080/", "webhook"],
    ["https://hooks.slack.com.ops.test/services/x", "webhook"],
    ["https://ops.test/hooks.slack.com/services/x", "webhook"],
  ];
  for (const [ALERT_URL, name] of cases) {
    const secret = name === "webhook" ? { ALERT_SIGNING_SECRET: SECRET } : {};
    const { alerts } = choose({ ALERT_URL, ...secret });
    assertEquals(alerts?.name, name, ALERT_URL);
  }
});

const SECRETS = {
  good: [12, 13, 14, 64].map((length) => `whsec_${btoa("x".repeat(length))}`)
    .flatMap((secret) => [secret, secret.replace(/=+$/, "")]),
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

const KEYS = {
  good: ["re_x"],
  bad: ["re_LEAKED\nre_x", "re_LEAKED\r\nre_x", "re_LEAKED\0"],
};
const RATES = { good: ["1", ""], bad: ["0", "-1", "0.5", "two", "1e3"] };

/** A setting, those it needs beside it, and values of it. */
const SETTINGS: [name: string, env: Environment, values: typeof RATES][] = [
  ["NOTIFICATION_URL", WEBHOOK, URLS],
  ["ALERT_URL", { ALERT_SIGNING_SECRET: SECRET }, URLS],
  ["ALERT_URL", {}, { good: [SLACK], bad: [SLACK.replace("https", "http")] }],
  ["NOTIFICATION_SIGNING_SECRET", WEBHOOK, SECRETS],
  ["ALERT_SIGNING_SECRET", { ALERT_URL: "https://ops.test/LEAKED" }, SECRETS],
  ["NOTIFICATION_FROM", EMAIL, { good: ["a@example.com"], bad: [""] }],
  ["RESEND_API_KEY", EMAIL, KEYS],
  ["EMAIL_REQUESTS_PER_SECOND", EMAIL, RATES],
];
Deno.test("the channels refuse a wrong setting, and name it, not its value", () => {
  for (const [name, env, { good, bad }] of SETTINGS) {
    for (const value of good) choose({ ...env, [name]: value });
    for (const value of bad) {
      const start = () => choose({ ...env, [name]: value });
      const says = `Cannot start: ${name} `;
      const { message } = assertThrows(start, Error, says);
      assert(!message.includes("LEAKED"), message);
    }
  }
  // The receiving side can use the secrets as well.
  for (const secret of SECRETS.good) new Webhook(secret);
});

/** Sends an alert to a Slack that answers so. */
async function send(
  alert: Alert,
  reply: () => Response = () => new Response("ok"),
  SUPABASE_URL?: string,
): Promise<{ attempt: Attempt | undefined; text: string }> {
  let text = "";
  const channel = chooseAlertChannel({ ALERT_URL: SLACK, SUPABASE_URL }, {
    fetch: (url, init) => {
      assertEquals([url, init?.method], [SLACK, "POST"]);
      // Slack does not say what it does with further fields.
      const { text: sent, ...more } = JSON.parse(String(init?.body));
      text = sent;
      assertEquals(more, {});
      return Promise.resolve(reply());
    },
    clock: Date.now,
  });
  assertEquals(channel?.destination, "alerts to hooks.slack.com");
  return { attempt: await channel?.send(alert), text };
}

const REF = "abcdefghijklmnopqrst";
const { error: _, event_type: __, ...rest } = OPENED.alert as FailureOpened;
const one = { ...OPENED, alert: { ...rest, new: 1 } };
const event_type = "<!channel> & &lt;x>";
const hostile = { ...OPENED, alert: { ...rest, event_type } };

Deno.test("slackChannel() says what failed and what to do, or that nothing is open any more", async () => {
  const whole = await send(OPENED, undefined, `https://${REF}.supabase.co`);
  assertEquals(
    whole.text,
    `Billing: 3 new failed events with event_invalid
Open: 12, since 2026-11-21 05:07 UTC.
Newest: evt_1 (customer.subscription.created, provider a): data.object.metadata.accountId is missing
What to do: run select * from billing.open_failures; in the SQL editor, and look up event_invalid in the receiver's docs/runbook.md
SQL editor: https://supabase.com/dashboard/project/${REF}/sql/new`,
  );
  const resolved = await send(RESOLVED);
  assertEquals(
    resolved.text,
    `Billing: no failed event with event_invalid is open any more.
Resolved: 12. Reported since 2026-11-21 06:25 UTC.
If more fail soon, the next alert may come up to an hour late: after a repair, look at billing.open_failures again.`,
  );
  const urls = ["http://127.0.0.1:54321", "https://a.b.supabase.co"];
  for (const url of [undefined, ...urls]) {
    const lines = (await send(one, undefined, url)).text.split("\n");
    assertEquals(lines[0], "Billing: 1 new failed event with event_invalid");
    assertEquals(lines[2], "Newest: evt_1 (type unknown, provider a)");
    assertEquals(lines.length, 4);
  }
  // Otherwise it could mention a whole channel.
  const { text } = await send(hostile);
  assert(text.includes("(&lt;!channel&gt; &amp; &amp;lt;x&gt;, pro"), text);
});

Deno.test("slackChannel() reads the status, and keeps its path to itself", async () => {
  const archived = () => new Response("channel_is_archived", { status: 410 });
  const { attempt } = await send(OPENED, archived);
  const error = "the receiver answered 410 Gone";
  assertEquals(attempt, { result: "dead", error });
  const broken = await send(OPENED, () => {
    throw new TypeError(`no answer from (${SLACK})`);
  });
  const named = "no answer from (ALERT_URL)";
  assertEquals(broken.attempt, { result: "failed", error: named });
});
