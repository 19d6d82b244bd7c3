/**
 * The functions of this version on a database of the previous one, as between two
 * deployments in the wrong order: nothing is lost, and only what is new fails
 * until the migrations are applied.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { handleWebhook } from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import type { Notification } from "../../supabase/functions/billing-worker/channels/channel.ts";
import { handleWake } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { migrate } from "../support/migrate_part.ts";
import { NEXT_VERSION } from "../support/previous_version.ts";
import { providerHeaders } from "../support/send.ts";
import { startPostgrest } from "../support/start_postgrest.ts";
import { setting } from "../support/test_environment.ts";
import { testReceiver } from "../support/test_receiver.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";

Deno.test("functions that are deployed before the migrations lose nothing", async () => {
  await using opened = new AsyncDisposableStack();
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, { name: "functions_first" });
  const sql = postgres(url, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());
  await migrate(url, { before: NEXT_VERSION });
  const keys = await localKeys();
  const rest = opened.use(await startPostgrest(url));
  const gateway = startGateway(0, {
    targets: { rest: Number(new URL(rest.url).port) },
    keys,
  });
  opened.defer(gateway.close);
  const supabaseUrl = `http://127.0.0.1:${gateway.port}`;
  const receiver = await testReceiver({ supabaseUrl });
  async function receive(event: object): Promise<number> {
    const body = JSON.stringify(event);
    const request = new Request("http://localhost/billing-webhook", {
      method: "POST",
      headers: providerHeaders(body, "a"),
      body,
    });
    return (await handleWebhook(request, receiver)).status;
  }

  const sent: Notification[] = [];
  const logged: unknown[] = [];
  async function wake(): Promise<number> {
    const send = () => Promise.resolve({ result: "sent" } as const);
    const response = await handleWake(
      new Request("http://localhost/billing-worker", { method: "POST" }),
      {
        database: createClient({ supabaseUrl, secretKey: keys.secret }, {
          fetch,
        }),
        channel: {
          name: "webhook",
          destination: "accounts",
          send: (notification) => {
            sent.push(notification);
            return send();
          },
        },
        alertChannel: {
          name: "webhook",
          alerts: true,
          destination: "alerts",
          send,
        },
        unmappedSubscriptions: "fail",
        oncePerInvoice: false,
        toleranceSeconds: 300,
        log: (level, _, fields) => level === "error" && logged.push(fields),
        clock: Date.now,
        sleep: () => Promise.resolve(),
      },
    );
    await response.body?.cancel();
    return response.status;
  }

  const [subscription, customer] = ["sub_1", "cus_1"];
  const creation = { subscription, customer, account: "acc_1" };
  const update = { subscription, customer, status: "past_due" };
  const invoice = invoiceEvent({ subscription, customer });
  const unnamed = subscriptionEvent("customer.subscription.created", {
    customer,
    subscription: "sub_2",
    account: null,
  });
  assertEquals([
    await receive(subscriptionEvent("customer.subscription.created", creation)),
    await receive(subscriptionEvent("customer.subscription.updated", update)),
    await receive(invoice),
    await receive(unnamed),
  ], [200, 200, 200, 500]);
  assertEquals(await wake(), 500);
  assertEquals(sent.map(({ event_id }) => event_id), [invoice.id]);
  assertEquals(logged.map((fields) => (fields as { code: string }).code), [
    "deployment_fault",
  ]);

  await migrate(url);
  // On Supabase, a change of the schema does this.
  await sql`notify pgrst, 'reload schema'`;
  assertEquals(await wakeUntilOk(wake), 200);

  // The next event brings the customer, and with it the account of the other.
  const next = { ...update, created: Math.floor(Date.now() / 1000) + 1 };
  assertEquals(
    await receive(subscriptionEvent("customer.subscription.updated", next)),
    200,
  );
  await sql`select public.retry_failed_events()`;
  assertEquals(await wake(), 200);
  const records = await sql`
    select id, account_id, provider_status, customer_id
    from public.subscriptions order by id`;
  assertEquals(records.map((row) => Object.values(row)), [
    ["sub_1", "acc_1", "past_due", customer],
    ["sub_2", "acc_1", "active", customer],
  ]);
  const [health] = await sql`select open_failures from public.billing_health`;
  assertEquals(Number(health?.["open_failures"]), 0);
  assertEquals(sent.length, 1);
});

/** PostgREST reads the schema again a moment after it is told to. */
async function wakeUntilOk(wake: () => Promise<number>): Promise<number> {
  const endMs = performance.now() + HANG_LIMIT_MS;
  let status = await wake();
  while (status !== 200 && performance.now() < endMs) status = await wake();
  return status;
}
