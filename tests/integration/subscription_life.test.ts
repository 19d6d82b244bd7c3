/**
 * One life of a subscription in each API version that docs/stripe.md names, over
 * real HTTP, PostgREST and Postgres.
 */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/functions.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { connect, subscriptionRecord } from "../support/tables.ts";

const CREATED = 1_770_000_000;
const PERIOD_END = 1_772_592_000;

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

for (const [index, apiVersion] of API_VERSIONS.entries()) {
  const provider: ProviderName = index === 0 ? "a" : "b";
  Deno.test(`each type of event of ${apiVersion} has its effect (provider ${provider})`, async () => {
    const id = uniqueId("sub");
    const options = { apiVersion, subscription: id };
    async function send(event: object): Promise<void> {
      const { status, body } = await deliver(receiver.url, event, { provider });
      assertEquals([status, body], [200, "OK"]);
    }

    await send(subscriptionEvent("customer.subscription.created", {
      ...options,
      account: "acc_7",
      plan: "price_1",
      periodEnd: PERIOD_END,
      created: CREATED,
    }));
    const created = {
      id,
      provider,
      account_id: "acc_7",
      status: "active",
      plan_id: "price_1",
      current_period_end: new Date(PERIOD_END * 1000),
      canceled_at: null,
    };
    assertEquals(await subscriptionRecord(sql, id), created);

    await send(subscriptionEvent("customer.subscription.updated", {
      ...options,
      account: "acc_other",
      plan: "price_2",
      status: "past_due",
      periodEnd: PERIOD_END + 60,
      created: CREATED + 60,
    }));
    const updated = {
      ...created,
      status: "past_due",
      plan_id: "price_2",
      current_period_end: new Date((PERIOD_END + 60) * 1000),
    };
    assertEquals(await subscriptionRecord(sql, id), updated);

    const invoice = invoiceEvent({ ...options, invoice: "in_1" });
    await send(invoice);
    assertEquals(await subscriptionRecord(sql, id), updated);
    const notifications = await sql`
      select event_id, account_id, invoice_id from billing.notifications
      where subscription_id = ${id}`;
    assertEquals(
      notifications.map((row) => Object.values(row)),
      [[invoice.id, "acc_7", "in_1"]],
    );

    const before = Date.now();
    await send(subscriptionEvent("customer.subscription.deleted", {
      ...options,
      created: CREATED + 120,
    }));
    const record = await subscriptionRecord(sql, id);
    // The time of handling, by the database's clock.
    const canceledAt = (record?.["canceled_at"] as Date).getTime();
    assert(canceledAt >= before - 1 && canceledAt <= Date.now() + 1);
    assertEquals(record, {
      ...updated,
      status: "canceled",
      canceled_at: record?.["canceled_at"],
    });
  });
}
