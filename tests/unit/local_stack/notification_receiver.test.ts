import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../../scripts/common/environment.ts";
import { startNotificationReceiver } from "../../../scripts/local_stack/notification_receiver.ts";
import { chooseAlertChannel } from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { chooseChannel } from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";

const DATA = { account_id: "acc_1", subscription_id: "sub_1" };
const BODY = JSON.stringify({ type: "billing.payment_failed", data: DATA });

function signed(secret: string, body: string): RequestInit {
  const now = new Date();
  return {
    method: "POST",
    body,
    headers: {
      "webhook-id": "id_1",
      "webhook-timestamp": `${Math.floor(now.getTime() / 1000)}`,
      "webhook-signature": new Webhook(secret).sign("id_1", now, body),
    },
  };
}

/** Returns what it answers and prints for each request. */
async function receive(
  ...requests: ((secret: string) => RequestInit)[]
): Promise<{ statuses: number[]; printed: string[] }> {
  const printed: string[] = [];
  await using receiver = startNotificationReceiver((line) =>
    printed.push(line)
  );
  const {
    NOTIFICATION_URL: url = "",
    NOTIFICATION_SIGNING_SECRET: secret = "",
  } = receiver.addTo({});
  const statuses: number[] = [];
  for (const request of requests) {
    const response = await fetch(url, request(secret));
    await response.body?.cancel();
    statuses.push(response.status);
  }
  return { statuses, printed };
}

Deno.test("startNotificationReceiver() prints amount, account and link in one line", async () => {
  const stated = JSON.stringify({
    type: "billing.payment_failed",
    data: {
      ...DATA,
      hosted_invoice_url: "https://pay.example.com/in_1",
      amount_due: 1900,
      currency: "eur",
    },
  });
  const { statuses, printed } = await receive(
    (secret) => signed(secret, stated),
    (secret) => signed(secret, BODY),
  );
  assertEquals(statuses, [200, 200]);
  assertEquals(printed, [
    "verified: payment of €19.00 failed for acc_1 (sub_1): https://pay.example.com/in_1",
    "verified: payment failed for acc_1 (sub_1)",
  ]);
});

Deno.test("startNotificationReceiver() prints a message of another type as it is", async () => {
  const other = '{"type":"billing.other","data":{}}';
  const { printed } = await receive((secret) => signed(secret, other));
  assertEquals(printed, [`verified ${other}`]);
});

Deno.test("startNotificationReceiver() refuses everything else, and prints none of it", async () => {
  const { statuses, printed } = await receive(
    () => signed("whsec_b3RoZXItbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==", BODY),
    (secret) => ({ ...signed(secret, BODY), body: `${BODY} ` }),
    () => ({ method: "POST", body: BODY }),
    () => ({ method: "GET" }),
  );
  assertEquals(statuses, [401, 401, 401, 401]);
  assertEquals(printed.length, 4);
  for (const line of printed) {
    assertStringIncludes(line, "refused: ");
    assert(!line.includes("acc_1"), line);
  }
});

Deno.test("startNotificationReceiver() has settings that the worker accepts", async () => {
  await using receiver = startNotificationReceiver(() => {});
  const lines: unknown[] = [];
  const env = receiver.addTo({});
  const channel = chooseChannel(env, {
    fetch,
    addressOf: () => Promise.resolve(null),
    clock: Date.now,
    log: (...line) => lines.push(line),
  });
  assertEquals([channel?.name, lines], ["webhook", []]);
  const alerts = chooseAlertChannel(env, { fetch, clock: Date.now });
  assertEquals(alerts?.name, "webhook");
});

const LONGEST_CODE = "subscription_of_other_provider";

for (
  const [type, data, line] of [
    [
      "failure_opened",
      { error_code: LONGEST_CODE, new: 1000, open: 10_000 },
      `alert: ${LONGEST_CODE}: 1000 new, 10000 open`,
    ],
    [
      "failures_resolved",
      { error_code: LONGEST_CODE, resolved: 10_000 },
      `alert: ${LONGEST_CODE}: none is open any more`,
    ],
  ] as const
) {
  Deno.test(`startNotificationReceiver() prints ${type} in 80 columns`, async () => {
    const body = JSON.stringify({ type: `billing.${type}`, data });
    const { printed } = await receive((secret) => signed(secret, body));
    assertEquals(printed, [line]);
    assert(`[notification] ${line}`.length <= 80);
  });
}

for (
  const [settings, names] of [
    [{}, ["NOTIFICATION_URL", "ALERT_URL"]],
    [{ NOTIFICATION_URL: "", RESEND_API_KEY: "", ALERT_URL: "" }, [
      "NOTIFICATION_URL",
      "ALERT_URL",
    ]],
    [{ NOTIFICATION_FROM: "a@example.com" }, ["NOTIFICATION_URL", "ALERT_URL"]],
    [{ NOTIFICATION_URL: "https://hooks.test" }, ["ALERT_URL"]],
    [{ RESEND_API_KEY: "re_unit" }, ["ALERT_URL"]],
    [{ ALERT_URL: "https://ops.test" }, ["NOTIFICATION_URL"]],
    [{ ALERT_URL: "https://ops.test", RESEND_API_KEY: "re_unit" }, []],
  ] as const
) {
  Deno.test(`startNotificationReceiver() leaves what is set: ${JSON.stringify(settings)}`, async () => {
    await using receiver = startNotificationReceiver(() => {});
    const given: Environment = settings;
    const added = receiver.addTo(given);
    const changed = Object.keys(added)
      .filter((name) => /_URL$/.test(name) && added[name] !== given[name]);
    assertEquals(changed, [...names]);
  });
}
