/**
 * UNMAPPED_SUBSCRIPTIONS: an account that sells other products too sends events
 * of subscriptions without an account ID.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import {
  API_VERSIONS,
  type ApiVersion,
} from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import {
  type ServedFunction,
  serveFunction,
} from "../support/serve_function.ts";
import {
  connect,
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";
import { requestRetry, settleLeftovers, takeTurn } from "../support/triage.ts";
import { withoutAccount } from "../support/without_account.ts";

const sql = connect();
const IGNORE = { UNMAPPED_SUBSCRIPTIONS: "ignore" };
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
function unknownEvents(apiVersion: ApiVersion) {
  const options = { apiVersion, subscription: uniqueId("sub") };
  return [
    subscriptionEvent("customer.subscription.created", options),
    subscriptionEvent("customer.subscription.updated", options),
    subscriptionEvent("customer.subscription.deleted", options),
    invoiceEvent(options),
  ];
}

for (const apiVersion of API_VERSIONS) {
  Deno.test(`every handled type of ${apiVersion} without an account is ignored with 200 if so configured, and fails by default`, async () => {
    for (const event of unknownEvents(apiVersion).map(withoutAccount)) {
      const before = await rowCounts(sql);
      assertEquals([event.type, await statusOf(ignoring, event)], [
        event.type,
        200,
      ]);
      assertEquals(await rowCounts(sql), before, "Nothing is stored");

      const expected = event.type === "customer.subscription.created"
        ? [422, "event_invalid"]
        : [500, "subscription_unknown"];
      const status = await statusOf(failing, event);
      const { failures } = await storedEvent(sql, event.id);
      assertEquals([status, failures[0]?.error_code], expected);
    }
  });

  Deno.test(`an event of ${apiVersion} that carries an account fails in both modes until its creation is applied`, async () => {
    const [creation, ...others] = unknownEvents(apiVersion) as [
      object,
      ...ReturnType<typeof unknownEvents>,
    ];
    for (const event of others) {
      for (const receiver of [ignoring, failing]) {
        assertEquals(await statusOf(receiver, event), 500);
      }
      const { failures } = await storedEvent(sql, event.id);
      assertEquals(failures[0]?.attempts, 2);
    }
    for (const event of [creation, ...others]) {
      assertEquals(await statusOf(ignoring, event), 200);
    }
    for (const event of others) {
      const { ledger, failures } = await storedEvent(sql, event.id);
      assertEquals(ledger.length, 1);
      assertEquals(failures[0]?.resolution, "applied");
    }
  });
}

Deno.test("events without an account are applied to a subscription that is recorded", async () => {
  const subscription = uniqueId("sub");
  const [creation, update, invoice] = [
    subscriptionEvent("customer.subscription.created", { subscription }),
    withoutAccount(subscriptionEvent("customer.subscription.updated", {
      subscription,
      status: "past_due",
    })),
    withoutAccount(invoiceEvent({ subscription })),
  ] as const;
  for (const event of [creation, update, invoice]) {
    assertEquals(await statusOf(ignoring, event), 200);
  }
  const record = await subscriptionRecord(sql, subscription);
  assertEquals(record?.["status"], "past_due");
  const { notifications } = await storedEvent(sql, invoice.id);
  assertEquals(notifications.length, 1);
});

Deno.test("a creation without an account is neither ignored nor refused if its customer is known", async () => {
  const [customer, account] = [uniqueId("cus"), uniqueId("acc")];
  await statusOf(
    failing,
    subscriptionEvent("customer.subscription.created", { customer, account }),
  );
  for (const receiver of [ignoring, failing]) {
    const creation = subscriptionEvent("customer.subscription.created", {
      customer,
      account: null,
    });
    assertEquals(await statusOf(receiver, creation), 200);
    const subscription = creation.data.object.id;
    const record = await subscriptionRecord(sql, subscription);
    assertEquals(record?.["account_id"], account);
    const invoice = withoutAccount(invoiceEvent({ subscription }));
    assertEquals(await statusOf(receiver, invoice), 200);
    const { notifications } = await storedEvent(sql, invoice.id);
    assertEquals(notifications[0]?.["account_id"], account);
  }
});

Deno.test("what arrives before the creation of a known customer's subscription is never ignored", async () => {
  const [customer, account] = [uniqueId("cus"), uniqueId("acc")];
  const subscription = uniqueId("sub");
  await statusOf(
    ignoring,
    subscriptionEvent("customer.subscription.created", { customer, account }),
  );
  const created = Math.floor(Date.now() / 1000) - 60;
  const options = { subscription, customer, created };
  const early = [
    withoutAccount(subscriptionEvent("customer.subscription.updated", {
      ...options,
      status: "trialing",
    })),
    withoutAccount(invoiceEvent(options)),
  ];
  for (const event of early) {
    assertEquals(await statusOf(ignoring, event), 500);
    const { failures } = await storedEvent(sql, event.id);
    assertEquals(failures[0]?.["error_code"], "creation_pending");
  }
  const creation = subscriptionEvent("customer.subscription.created", {
    ...options,
    account: null,
    status: "incomplete",
  });
  for (const event of [creation, ...early]) {
    assertEquals(await statusOf(ignoring, event), 200);
  }
  const record = await subscriptionRecord(sql, subscription);
  assertEquals([record?.["account_id"], record?.["status"]], [
    account,
    "trialing",
  ]);
});

Deno.test("a retry finds the account that the customer has meanwhile", async () => {
  await settleLeftovers(sql);
  const [customer, account] = [uniqueId("cus"), uniqueId("acc")];
  const creation = subscriptionEvent("customer.subscription.created", {
    customer,
    account: null,
  });
  const { id } = creation;
  assertEquals(await statusOf(failing, creation), 422);
  await statusOf(
    failing,
    subscriptionEvent("customer.subscription.created", { customer, account }),
  );
  await using worker = await serveFunction("billing-worker", { env: {} });
  await requestRetry(sql, id);
  const { retries } = await takeTurn(worker);
  assertEquals([retries["applied"], retries["failed"]], [1, 0]);
  const [failure] = (await storedEvent(sql, id)).failures;
  assertEquals(failure?.["resolution"], "applied");
});

Deno.test("a malformed account id is not the same as none, and other faults still fail", async () => {
  const creation = subscriptionEvent("customer.subscription.created");
  const malformed = [
    edited(creation, { "data.object.metadata.accountId": 7 }),
    edited(creation, { "data.object.items.data": [] }),
  ];
  for (const [i, event] of malformed.entries()) {
    const body = { ...event, id: `${creation.id}_${i}` };
    assertEquals(await statusOf(ignoring, body), 422);
    const { failures } = await storedEvent(sql, body.id);
    assertEquals(failures[0]?.error_code, "event_invalid");
  }
});

Deno.test("the log has a line about ignored events, with their count", async () => {
  const event = withoutAccount(
    subscriptionEvent("customer.subscription.created"),
  );
  await using receiver = await startReceiver({ env: IGNORE });
  assertEquals(await statusOf(receiver, event), 200);
  const line = await receiver.logged(({ message }) =>
    message === "unmapped event ignored"
  );
  const { level, provider, event_id, type, code, outcomes } = line;
  assertEquals({ level, provider, event_id, type, code, outcomes }, {
    level: "info",
    provider: "a",
    event_id: event.id,
    type: event.type,
    code: "event_invalid",
    outcomes: { ignored: 1 },
  });
});

Deno.test("retries follow the same rule", async () => {
  await settleLeftovers(sql);
  const [creation, update] = unknownEvents("2024-06-20").map(withoutAccount);
  const mapped = subscriptionEvent("customer.subscription.updated");
  const events = [creation, update, mapped].filter((event) =>
    event !== undefined
  );
  for (const event of events) await statusOf(failing, event);

  const become = async (env: Record<string, string>) => {
    await using worker = await serveFunction("billing-worker", { env });
    for (const { id } of events) await requestRetry(sql, id).catch(() => {});
    return (await takeTurn(worker)).retries;
  };
  const { failed, ignored } = await become({});
  assertEquals({ failed, ignored }, { failed: 3, ignored: 0 });
  const { failed: stillFailed, ignored: nowIgnored } = await become(IGNORE);
  assertEquals([stillFailed, nowIgnored], [1, 2]);
  const [open] = (await storedEvent(sql, mapped.id)).failures;
  assertEquals(open?.resolved_at, null);
  const [settled] = (await storedEvent(sql, update?.id ?? "")).failures;
  assertEquals(settled?.resolution, "ignored");
});
