/**
 * One life of a subscription in each API version that docs/stripe.md names, over
 * real HTTP, PostgREST and Postgres. Unit tests have each field, pgTAP the rule,
 * and the catalogue the statuses.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import {
  API_VERSIONS,
  paymentIntentEvent,
} from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/functions.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { readPage } from "../support/docs.ts";
import {
  connect,
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";

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
    const ignored = paymentIntentEvent({ apiVersion });
    await send(ignored);
    assertEquals(await rowCounts(sql), counts);
    const line = await receiver.logged(({ event_id }) =>
      event_id === ignored.id
    );
    assertEquals(line.message, "event ignored");
  });
}

const plan = { id: "gold", object: "plan", amount: 1900, interval: "month" };
const price = { id: "gold", object: "price", unit_amount: 1900 };
const list = (...data: object[]) => ({ items: { object: "list", data } });
const REPORT = {
  status: "past_due",
  plan_id: "gold",
  current_period_end: new Date(PERIOD_END * 1000),
  quantity: 3,
  cancel_at: null,
  paused: null,
};

/**
 * The fields of Stripe's older versions, and the columns of the record, or the
 * field for which the event is refused. What Stripe adds later, it adds to all
 * versions: `price` stands beside `plan` in events sent since 2020.
 */
const OLD_SHAPES: [
  version: string,
  fields: object,
  becomes: object | string,
][] = [
  [
    "2014-08-20, one plan per subscription",
    { plan, quantity: 3 },
    "data.object.items is missing",
  ],
  [
    "2016-07-06, items with plans",
    { ...list({ plan, quantity: 3 }), plan },
    "data.object.items.data[0].price is missing",
  ],
  [
    "2018-05-21, sent since 2020",
    { ...list({ plan, price, quantity: 3 }), cancel_at_period_end: true },
    { ...REPORT, cancel_at: REPORT.current_period_end },
  ],
  [
    "2020-08-27, several items, the first based on usage",
    {
      ...list({ price }, { price: { ...price, id: "silver" }, quantity: 7 }),
      pause_collection: { behavior: "void", resumes_at: null },
    },
    { ...REPORT, quantity: null, paused: "void" },
  ],
];

for (const [version, fields, becomes] of OLD_SHAPES) {
  const isRefused = typeof becomes === "string";
  Deno.test(`a creation and an update of ${version} are ${isRefused ? "refused" : "applied"}`, async () => {
    const object = {
      id: uniqueId("sub"),
      customer: "cus_1",
      metadata: { accountId: "acc_1" },
      status: "past_due",
      current_period_end: PERIOD_END,
      ...fields,
    };
    for (const [second, type] of ["created", "updated"].entries()) {
      const event = {
        id: uniqueId("evt"),
        type: `customer.subscription.${type}`,
        created: CREATED + second,
        data: { object },
      };
      const { status } = await deliver(receiver.url, event);
      assertEquals(status, isRefused ? 422 : 200);
      const { failures } = await storedEvent(sql, event.id);
      const errors = failures.map(({ error }) => `${error}`.split("; ")[0]);
      assertEquals(errors, isRefused ? [becomes] : []);
    }
    const records = await sql`
      select status, plan_id, current_period_end, quantity, cancel_at, paused
      from billing.subscriptions where id = ${object.id}`;
    assertEquals<unknown[]>(
      records.map((record) => ({ ...record })),
      isRefused ? [] : [becomes],
    );
  });
}
