/**
 * UNMAPPED_SUBSCRIPTIONS: an account that sells other products too sends events
 * of subscriptions without an account ID. Unit tests have where an account ID may
 * stand, and pgTAP whose a known customer's subscription is.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  type ServedFunction,
  startReceiver,
  startWorker,
  takeTurn,
} from "../support/functions.ts";
import { deliver } from "../support/send.ts";
import {
  connect,
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";
import { failureOf, requestRetry, settleLeftovers } from "../support/queues.ts";
import { withoutAccount } from "../support/edited.ts";

const IGNORE = { UNMAPPED_SUBSCRIPTIONS: "ignore" };

const sql = connect();
const failing = await startReceiver();
const ignoring = await startReceiver({ env: IGNORE });
Deno.test.afterAll(async () => {
  await failing[Symbol.asyncDispose]();
  await ignoring[Symbol.asyncDispose]();
  await sql.end();
});

async function statusOf(receiver: ServedFunction, event: object) {
  return (await deliver(receiver.url, event)).status;
}

/** An event of each handled type for a subscription that is unknown here. */
function unknownEvents() {
  const options = { subscription: uniqueId("sub") };
  return [
    subscriptionEvent("customer.subscription.created", options),
    subscriptionEvent("customer.subscription.updated", options),
    subscriptionEvent("customer.subscription.deleted", options),
    invoiceEvent(options),
  ];
}

Deno.test("every handled type without an account is ignored if so configured, and fails by default, also at a retry", async () => {
  await settleLeftovers(sql);
  const mapped = subscriptionEvent("customer.subscription.updated");
  const events = unknownEvents().map(withoutAccount);
  for (const event of events) {
    const before = await rowCounts(sql);
    assertEquals(await statusOf(ignoring, event), 200, event.type);
    assertEquals(await rowCounts(sql), before, "Nothing is stored");

    const status = await statusOf(failing, event);
    const { error_code } = await failureOf(sql, event.id);
    const expected = event.type === "customer.subscription.created"
      ? [422, "event_invalid"]
      : [500, "subscription_unknown"];
    assertEquals([status, error_code], expected);
  }
  const { id, type } = events[0]!;
  const line = await ignoring.logged(({ event_id }) => event_id === id);
  assertEquals(
    [line.level, line.message, line.type, line.code, line.outcomes],
    ["info", "unmapped event ignored", type, "event_invalid", { ignored: 1 }],
  );

  assertEquals(await statusOf(ignoring, mapped), 500);
  const retry = async (env: Record<string, string>) => {
    await using worker = await startWorker(env);
    for (const { id } of [...events, mapped]) await requestRetry(sql, id);
    const { retries } = await takeTurn(worker);
    return [retries["failed"], retries["ignored"]];
  };
  assertEquals(await retry({}), [5, 0]);
  assertEquals(await retry(IGNORE), [1, 4]);
  assertEquals((await failureOf(sql, mapped.id)).resolved_at, null);
  assertEquals((await failureOf(sql, id)).resolution, "ignored");
});

Deno.test("an event that carries an account fails in both modes until its creation is applied", async () => {
  const [creation, ...others] = unknownEvents();
  for (const event of others) {
    for (const receiver of [ignoring, failing]) {
      assertEquals(await statusOf(receiver, event), 500);
    }
    assertEquals((await failureOf(sql, event.id)).attempts, 2);
  }
  for (const event of [creation!, ...others]) {
    assertEquals(await statusOf(ignoring, event), 200);
  }
  for (const event of others) {
    const { ledger, failures } = await storedEvent(sql, event.id);
    assertEquals([ledger.length, failures[0]?.resolution], [1, "applied"]);
  }
});

Deno.test("nothing of a known customer is ignored, also if it arrives before its creation", async () => {
  const [customer, account] = [uniqueId("cus"), uniqueId("acc")];
  const first = subscriptionEvent("customer.subscription.created", {
    customer,
    account,
  });
  assertEquals(await statusOf(failing, first), 200);
  const created = Math.floor(Date.now() / 1000) - 60;
  for (const receiver of [ignoring, failing]) {
    const subscription = uniqueId("sub");
    const options = { subscription, customer, created };
    const creation = subscriptionEvent("customer.subscription.created", {
      ...options,
      account: null,
    });
    const update = subscriptionEvent("customer.subscription.updated", {
      ...options,
      account: null,
      status: "trialing",
    });
    const invoice = withoutAccount(invoiceEvent(options));
    for (const event of [update, invoice]) {
      assertEquals(await statusOf(receiver, event), 500);
      const { error_code } = await failureOf(sql, event.id);
      assertEquals(error_code, "creation_pending");
    }
    for (const event of [creation, update, invoice]) {
      assertEquals(await statusOf(receiver, event), 200);
    }
    const record = await subscriptionRecord(sql, subscription);
    assertEquals(
      [record?.["account_id"], record?.["status"]],
      [account, "trialing"],
    );
    const { notifications } = await storedEvent(sql, invoice.id);
    assertEquals(notifications[0]?.["account_id"], account);
  }
});
