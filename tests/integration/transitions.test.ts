/**
 * The specification's table of states and transitions, and its events, over
 * real HTTP, PostgREST and Postgres, with bodies of both API versions.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import {
  connect,
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";

const OK = { status: 200, body: "OK" };
const CREATED = 1_770_000_000;
const PERIOD_END = 1_772_592_000;

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function send(event: object, provider: "a" | "b" = "a") {
  const { status, body } = await deliver(receiver.url, event, { provider });
  return { status, body };
}

async function create(options: {
  apiVersion?: typeof API_VERSIONS[number];
  provider?: "a" | "b";
} = {}): Promise<string> {
  const subscription = uniqueId("sub");
  const event = subscriptionEvent("customer.subscription.created", {
    ...(options.apiVersion && { apiVersion: options.apiVersion }),
    subscription,
    account: "acc_7",
    plan: "price_1",
    periodEnd: PERIOD_END,
    created: CREATED,
  });
  assertEquals(await send(event, options.provider), OK);
  return subscription;
}

for (const apiVersion of API_VERSIONS) {
  Deno.test(`customer.subscription.created makes an active record (${apiVersion})`, async () => {
    const id = await create({ apiVersion });
    assertEquals(await subscriptionRecord(sql, id), {
      id,
      provider: "a",
      account_id: "acc_7",
      status: "active",
      plan_id: "price_1",
      current_period_end: new Date(PERIOD_END * 1000),
      canceled_at: null,
    });
  });

  Deno.test(`customer.subscription.updated overwrites status, plan and period (${apiVersion})`, async () => {
    const id = await create({ apiVersion });
    const event = subscriptionEvent("customer.subscription.updated", {
      apiVersion,
      subscription: id,
      account: "acc_other",
      plan: "price_2",
      status: "past_due",
      periodEnd: PERIOD_END + 60,
      created: CREATED + 60,
    });
    assertEquals(await send(event), OK);
    assertEquals(await subscriptionRecord(sql, id), {
      id,
      provider: "a",
      account_id: "acc_7",
      status: "past_due",
      plan_id: "price_2",
      current_period_end: new Date((PERIOD_END + 60) * 1000),
      canceled_at: null,
    });
  });

  Deno.test(`customer.subscription.deleted cancels, at the time of handling (${apiVersion})`, async () => {
    const id = await create({ apiVersion });
    const before = Date.now();
    const event = subscriptionEvent("customer.subscription.deleted", {
      apiVersion,
      subscription: id,
      created: CREATED + 60,
    });
    assertEquals(await send(event), OK);

    const record = await subscriptionRecord(sql, id);
    const canceledAt = (record?.canceled_at as Date).getTime();
    assert(canceledAt >= before - 1 && canceledAt <= Date.now() + 1);
    assertEquals({ ...record, canceled_at: null }, {
      id,
      provider: "a",
      account_id: "acc_7",
      status: "canceled",
      plan_id: "price_1",
      current_period_end: new Date(PERIOD_END * 1000),
      canceled_at: null,
    });
  });

  Deno.test(`invoice.payment_failed creates a notification for the account and changes no record (${apiVersion})`, async () => {
    const id = await create({ apiVersion });
    const before = await subscriptionRecord(sql, id);
    const event = invoiceEvent({
      apiVersion,
      subscription: id,
      invoice: "in_1",
      created: CREATED + 60,
    });
    assertEquals(await send(event), OK);
    assertEquals(await subscriptionRecord(sql, id), before);

    const { notifications } = await storedEvent(sql, event.id);
    assertEquals(notifications.length, 1);
    const { account_id, subscription_id, invoice_id, status, provider } =
      notifications[0] ?? {};
    assertEquals({
      account_id,
      subscription_id,
      invoice_id,
      status,
      provider,
    }, {
      account_id: "acc_7",
      subscription_id: id,
      invoice_id: "in_1",
      status: "pending",
      provider: "a",
    });
  });

  Deno.test(`payment_intent.payment_failed is acknowledged and stores nothing (${apiVersion})`, async () => {
    const before = await rowCounts(sql);
    const event = paymentIntentEvent({ apiVersion });
    assertEquals(await send(event), OK);
    assertEquals(await rowCounts(sql), before);
    const line = await receiver.logged((line) => line.event_id === event.id);
    assertEquals(line.message, "event ignored");
  });
}

Deno.test("events without a time are applied in order of arrival", async () => {
  const id = uniqueId("sub");
  const undated = { subscription: id, created: null, periodEnd: PERIOD_END };
  const types = [
    "customer.subscription.created",
    "customer.subscription.deleted",
    "customer.subscription.updated",
  ] as const;
  for (const type of types) {
    const event = subscriptionEvent(type, { ...undated, status: "unpaid" });
    assertEquals(await send(event), OK);
  }
  assertEquals((await subscriptionRecord(sql, id))?.status, "unpaid");
});

Deno.test("provider B keeps records of its own", async () => {
  const id = await create({ provider: "b" });
  assertEquals((await subscriptionRecord(sql, id))?.provider, "b");
  const event = subscriptionEvent("customer.subscription.deleted", {
    subscription: id,
  });
  assertEquals(await send(event, "b"), OK);
  assertEquals((await subscriptionRecord(sql, id))?.status, "canceled");
});

Deno.test("a failed invoice that belongs to no subscription is acknowledged", async () => {
  const event = invoiceEvent();
  const oneOff = {
    ...event,
    data: {
      object: { ...event.data.object, subscription: null, parent: null },
    },
  };
  const before = await rowCounts(sql);
  assertEquals(await send(oneOff), OK);
  assertEquals(await rowCounts(sql), before);
});

Deno.test("the same event 40 times at once has one effect and 200 for all", async () => {
  const id = await create();
  const event = invoiceEvent({ subscription: id });
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => send(event)),
  );
  assertEquals(answers, Array(40).fill(OK));
  const { ledger, notifications, failures } = await storedEvent(sql, event.id);
  assertEquals(
    [ledger.length, notifications.length, failures.length],
    [1, 1, 0],
  );
});
