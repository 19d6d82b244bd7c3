import { assertEquals, assertMatch } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { startNotificationReceiver } from "../../../scripts/local_stack/notification_receiver.ts";

const OTHER_SECRET = "whsec_b3RoZXItbm90aWZpY2F0aW9uLXNlY3JldC0wMQ==";
const DATA = { account_id: "acc_1", subscription_id: "sub_1" };
const INVOICE = {
  ...DATA,
  hosted_invoice_url: "https://pay.example.com/in_1",
  amount_due: 1900,
  currency: "eur",
};
const FAILURE = { error_code: "event_invalid", new: 1000, open: 10_000 };

Deno.test("startNotificationReceiver() prints what is signed, and nothing of the rest", async () => {
  const printed: string[] = [];
  await using receiver = startNotificationReceiver((line) =>
    printed.push(line)
  );
  const settings = receiver.addTo({});
  const { NOTIFICATION_URL: url, NOTIFICATION_SIGNING_SECRET: own } = settings;
  async function send(type: string, data: unknown, secret = own!) {
    const body = JSON.stringify({ type: `billing.${type}`, data });
    const now = new Date();
    const { status } = await fetch(url!, {
      method: "POST",
      body,
      headers: {
        "webhook-id": "id_1",
        "webhook-timestamp": `${Math.floor(now.getTime() / 1000)}`,
        "webhook-signature": new Webhook(secret).sign("id_1", now, body),
      },
    });
    return [status, printed.pop()];
  }
  for (
    const [type, data, line] of [
      [
        "payment_failed",
        INVOICE,
        "verified: payment of €19.00 failed for acc_1 (sub_1): https://pay.example.com/in_1",
      ],
      ["payment_failed", DATA, "verified: payment failed for acc_1 (sub_1)"],
      ["failure_opened", FAILURE, "alert: event_invalid: 1000 new, 10000 open"],
      ["other", {}, 'verified {"type":"billing.other","data":{}}'],
    ] as const
  ) assertEquals(await send(type, data), [200, line]);
  const [status, line] = await send("payment_failed", DATA, OTHER_SECRET);
  assertEquals(status, 401);
  assertMatch(`${line}`, /^refused: (?!.*acc_1)/);

  assertEquals(receiver.addTo({ ALERT_URL: "a", RESEND_API_KEY: "r" }), {
    ALERT_URL: "a",
    RESEND_API_KEY: "r",
  });
});
