/**
 * One life of a subscription in each API version that docs/stripe.md names, over
 * real HTTP, PostgREST and Postgres. Unit tests have each field, pgTAP the rule,
 * and the catalogue the statuses.
 */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentEvent } from "../../scripts/events/payment_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/functions.ts";
import { edited } from "../support/edited.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { readPage } from "../support/docs.ts";
import { connect, rowCounts, subscriptionRecord } from "../support/tables.ts";

const CREATED = 1_770_000_000;
const PERIOD_END = 1_772_592_000;

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

const page = readPage("docs/stripe.md");

for (const [index, apiVersion] of API_VERSIONS.entries()) {
  const provider: ProviderName = index === 0 ? "a" : "b";
  Deno.test(`each type of event of ${apiVersion} has its effect (provider ${provider})`, async () => {
    assert(page.includes(apiVersion), "stripe.md does not name it");
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

    const update = subscriptionEvent("customer.subscription.updated", {
      ...options,
      account: "acc_other",
      plan: "price_2",
      status: "past_due",
      periodEnd: PERIOD_END + 60,
      created: CREATED + 60,
    });
    // The first item's plan is the subscription's.
    const second = {
      price: { id: "price_3" },
      current_period_end: PERIOD_END + 90,
    };
    await send(edited(update, { "data.object.items.data.1": second }));
    const updated = {
      ...created,
      status: "past_due",
      plan_id: "price_2",
      current_period_end: new Date((PERIOD_END + 60) * 1000),
    };
    assertEquals(await subscriptionRecord(sql, id), updated);

    // Two endpoints may send one event, each in its own shape; and each attempt to
    // collect an invoice is notified.
    const attempts = [uniqueId("evt"), uniqueId("evt")].sort();
    for (const attempt of attempts) {
      for (const apiVersion of API_VERSIONS) {
        const ids = { id: attempt, subscription: id, invoice: "in_1" };
        await send(invoiceEvent({ ...ids, apiVersion }));
      }
    }
    assertEquals(await subscriptionRecord(sql, id), updated);
    const notifications = await sql`
      select event_id, account_id, invoice_id from billing.notifications
      where subscription_id = ${id} order by event_id collate "C"`;
    assertEquals(
      notifications.map((row) => Object.values(row)),
      attempts.map((attempt) => [attempt, "acc_7", "in_1"]),
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

    const counts = await rowCounts(sql);
    const ignored = paymentEvent("charge.refunded", { apiVersion });
    await send(ignored);
    assertEquals(await rowCounts(sql), counts);
    const line = await receiver.logged(({ event_id }) =>
      event_id === ignored.id
    );
    assertEquals(line.message, "event ignored");
  });
}
