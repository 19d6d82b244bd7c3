/**
 * Retries on request: each runs through the code that handles deliveries and
 * through the ledger, and its outcome is on the row.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startApiProxy } from "../support/api_proxy.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent, subscriptionRecord } from "../support/tables.ts";
import {
  failureOf,
  repair,
  requestRetry,
  settleLeftovers,
  takeTurn,
  wake,
} from "../support/triage.ts";
import { endLease } from "../support/outbox.ts";
import { startWorker } from "../support/worker.ts";

const NOTHING = {
  claimed: 0,
  failed: 0,
  applied: 0,
  duplicate: 0,
  stale: 0,
  ignored: 0,
};

const sql = connect();
const receiver = await startReceiver();
const api = await startApiProxy();
// Without a channel, notifications stay pending and can be counted.
const worker = await startWorker({ SUPABASE_URL: api.url });
Deno.test.beforeEach(() => settleLeftovers(sql));
Deno.test.afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Delivers events that come to these answers. */
async function send(
  expected: number,
  ...events: (object | string | Uint8Array<ArrayBuffer>)[]
): Promise<void> {
  for (const event of events) {
    const { status, body } = await deliver(receiver.url, event);
    assertEquals(status, expected, body);
  }
}

/** What became of the retries of a turn, without what became of none. */
async function retries(): Promise<Record<string, number>> {
  return (await takeTurn(worker)).retries;
}

/** A subscription of provider a, created a minute ago. */
async function createdSubscription(): Promise<string> {
  const subscription = uniqueId("sub");
  const created = Math.floor(Date.now() / 1000) - 60;
  await send(
    200,
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created,
    }),
  );
  return subscription;
}

/** A failed invoice that came before its subscription, which is there now. */
async function earlyInvoice() {
  const subscription = uniqueId("sub");
  const invoice = invoiceEvent({ subscription });
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
    account: "acc_5",
  });
  await send(500, invoice);
  await send(200, creation);
  return { invoice, creation, subscription };
}

Deno.test("a turn retries nothing that nobody asked for", async () => {
  const { invoice } = await earlyInvoice();
  assertEquals(await retries(), NOTHING);
  assertEquals((await failureOf(sql, invoice.id)).attempts, 1);
});

Deno.test("a retry applies an event whose subscription has come", async () => {
  const { invoice } = await earlyInvoice();
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  const { ledger, notifications } = await storedEvent(sql, invoice.id);
  assertEquals([ledger.length, notifications.length], [1, 1]);
  const row = await failureOf(sql, invoice.id);
  assertEquals(
    [row.resolution, row.attempts, row.retry_requested_at],
    ["applied", 1, null],
  );
  const line = await worker.logged((line) =>
    line.message === "failures retried"
  );
  assertEquals(line["counts"], { ...NOTHING, claimed: 1, applied: 1 });
  assertEquals(await retries(), NOTHING);
});

Deno.test("a retry that fails again counts an attempt, and the new error is on the row", async () => {
  const invoice = invoiceEvent();
  await send(500, invoice);
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, failed: 1 });
  const again = await failureOf(sql, invoice.id);
  assertEquals(
    [again.attempts, again.error_code, again.retry_requested_at],
    [2, "subscription_unknown", null],
  );
  assertEquals([again.resolved_at, again.retry_lease_id], [null, null]);

  await repair(sql, invoice.id, edited(invoice, { created: "soon" }));
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, failed: 1 });
  const worse = await failureOf(sql, invoice.id);
  assertEquals([worse.attempts, worse.error_code], [3, "event_invalid"]);
  assertStringIncludes(worse.error, "created");
  // It waits for a person, not for the next turn.
  assertEquals(await retries(), NOTHING);
  assertEquals((await storedEvent(sql, invoice.id)).ledger, []);
});

Deno.test("an update that is older than what the record holds is resolved as stale", async () => {
  const subscription = uniqueId("sub");
  const now = Math.floor(Date.now() / 1000);
  const update = subscriptionEvent("customer.subscription.updated", {
    subscription,
    created: now - 30,
    status: "unpaid",
  });
  await send(500, update);
  await send(
    200,
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created: now - 60,
    }),
    subscriptionEvent("customer.subscription.updated", {
      subscription,
      created: now,
      status: "past_due",
    }),
  );
  await requestRetry(sql, update.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, stale: 1 });
  assertEquals((await failureOf(sql, update.id)).resolution, "stale");
  assertEquals(
    (await subscriptionRecord(sql, subscription))?.["status"],
    "past_due",
  );
});

Deno.test("an event that the provider delivers during its retry is applied once", async () => {
  const { invoice } = await earlyInvoice();
  await requestRetry(sql, invoice.id);
  api.intercept("billing_apply_events", () => send(200, invoice));
  assertEquals(await retries(), { ...NOTHING, claimed: 1, duplicate: 1 });
  const { ledger, notifications } = await storedEvent(sql, invoice.id);
  assertEquals([ledger.length, notifications.length], [1, 1]);
  const row = await failureOf(sql, invoice.id);
  assertEquals([row.resolution, row.attempts], ["applied", 1]);
});

Deno.test("a failure whose event was applied under another row is resolved as a duplicate", async () => {
  const subscription = await createdSubscription();
  const invoice = invoiceEvent({ subscription });
  const nameless = edited(invoice, { id: undefined });
  await send(200, invoice);
  await send(422, nameless);
  const filedAs = await filedUnder(nameless);
  await repair(sql, filedAs, invoice);
  await requestRetry(sql, filedAs);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, duplicate: 1 });
  assertEquals((await failureOf(sql, filedAs)).resolution, "duplicate");
  assertEquals(
    (await storedEvent(sql, invoice.id)).notifications.length,
    1,
  );
});

Deno.test("an event without an id is applied under the id that its repair gives it, and stays settled", async () => {
  const subscription = await createdSubscription();
  const invoice = invoiceEvent({ subscription });
  const nameless = edited(invoice, { id: undefined });
  await send(422, nameless);
  const filedAs = await filedUnder(nameless);
  await repair(sql, filedAs, invoice);
  await requestRetry(sql, filedAs);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  assertEquals((await failureOf(sql, filedAs)).resolution, "applied");
  assertEquals(
    (await storedEvent(sql, invoice.id)).notifications.length,
    1,
  );

  await send(200, nameless);
  const row = await failureOf(sql, filedAs);
  assertEquals([row.resolution, row.attempts], ["applied", 1]);
});

async function filedUnder(event: object): Promise<string> {
  const hash = await crypto.subtle.digest(
    "SHA-256",
    new TextEncoder().encode(JSON.stringify(event)),
  );
  return `sha256:${
    Array.from(
      new Uint8Array(hash),
      (byte) => byte.toString(16).padStart(2, "0"),
    ).join("")
  }`;
}

Deno.test("a failure whose repaired event has no effect is resolved as ignored", async () => {
  const invoice = invoiceEvent();
  await send(500, invoice);
  await repair(sql, invoice.id, paymentIntentEvent({ id: invoice.id }));
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, ignored: 1 });
  assertEquals((await failureOf(sql, invoice.id)).resolution, "ignored");
  const { ledger, notifications } = await storedEvent(sql, invoice.id);
  assertEquals([ledger, notifications], [[], []]);
});

Deno.test("a body that jsonb cannot hold is retried as the text that arrived", async () => {
  const subscription = uniqueId("sub");
  const invoice = edited(invoiceEvent({ subscription }), {
    "data.object.description": "zero \0 byte",
  });
  await send(500, invoice);
  assertEquals((await failureOf(sql, invoice.id)).payload_encoding, "text");
  await send(
    200,
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  assertEquals(
    (await storedEvent(sql, invoice.id)).notifications.length,
    1,
  );
});

Deno.test("a number beyond what JavaScript holds is retried with every digit", async () => {
  const subscription = uniqueId("sub");
  const invoice = invoiceEvent({ subscription });
  const body = JSON.stringify(invoice).replace(
    /^\{/,
    '{"huge":1e400,"big":12345678901234567890,',
  );
  await send(500, body);
  await send(
    200,
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
  await requestRetry(sql, invoice.id);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
});

Deno.test("a body that is not text is retried byte for byte, and applied after a repair", async () => {
  const subscription = await createdSubscription();
  const invoice = invoiceEvent({ subscription });
  // Latin-1, which is no UTF-8.
  const body = Uint8Array.from(
    JSON.stringify(edited(invoice, { "data.object.description": "Zoë" })),
    (character) => character.charCodeAt(0),
  );
  await send(400, body);
  const [filed] = await sql`
    select event_id, payload_encoding from billing.failed_events
    where resolved_at is null`;
  assertEquals(filed?.["payload_encoding"], "base64");
  const eventId = filed?.["event_id"];
  await requestRetry(sql, eventId);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, failed: 1 });
  const row = await failureOf(sql, eventId);
  assertEquals([row.attempts, row.error_code], [2, "body_not_text"]);

  await repair(sql, eventId, invoice);
  await requestRetry(sql, eventId);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  const { original_payload, resolution } = await failureOf(sql, eventId);
  assertEquals([original_payload, resolution], [
    btoa(String.fromCharCode(...body)),
    "applied",
  ]);
});

Deno.test("an event ID that both providers use is retried for each of them, with its own outcome", async () => {
  const subscription = uniqueId("sub");
  const invoice = invoiceEvent({ subscription });
  for (const provider of ["a", "b"] as const) {
    const { status } = await deliver(receiver.url, invoice, { provider });
    assertEquals(status, 500);
  }
  await send(
    200,
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
  for (const provider of ["a", "b"] as const) {
    assertStringIncludes(
      await requestRetry(sql, invoice.id, { provider }),
      "Retry requested: 1.",
    );
  }
  assertEquals(await retries(), {
    ...NOTHING,
    claimed: 2,
    applied: 1,
    failed: 1,
  });
  assertEquals((await failureOf(sql, invoice.id)).resolution, "applied");
  const other = await failureOf(sql, invoice.id, { provider: "b" });
  assertEquals(
    [other.resolved_at, other.error_code, other.attempts],
    [null, "subscription_of_other_provider", 2],
  );
});

Deno.test("a payload that is repaired during a retry is used by the next retry", async () => {
  const subscription = await createdSubscription();
  const broken = edited(invoiceEvent({ subscription }), { created: "soon" });
  await send(422, broken);
  await requestRetry(sql, broken.id);
  const fixed = invoiceEvent({ id: broken.id, subscription });
  api.intercept(
    "billing_settle_failed_events",
    () => repair(sql, broken.id, fixed),
  );
  // The same turn claims it again.
  assertEquals(await retries(), {
    ...NOTHING,
    claimed: 2,
    failed: 1,
    applied: 1,
  });
  const row = await failureOf(sql, broken.id);
  assertEquals([row.resolution, row.attempts], ["applied", 1]);
});

/** What a gateway says whose service is not there. */
function gone(): Promise<Response> {
  return Promise.resolve(new Response("upstream is gone", { status: 502 }));
}

Deno.test("if the API fails before an event is applied, it is retried by the next run", async () => {
  const { invoice } = await earlyInvoice();
  await requestRetry(sql, invoice.id);
  api.intercept("billing_apply_events", gone);
  assertEquals((await wake(worker)).status, 503);

  const row = await failureOf(sql, invoice.id);
  assertEquals([row.resolved_at, row.attempts], [null, 1]);
  assert(row.retry_requested_at instanceof Date);
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  const { ledger, notifications } = await storedEvent(sql, invoice.id);
  assertEquals([ledger.length, notifications.length], [1, 1]);
});

Deno.test("if the API fails after an event was applied, its row is settled all the same", async () => {
  const { invoice } = await earlyInvoice();
  await requestRetry(sql, invoice.id);
  api.intercept("billing_settle_failed_events", gone);
  assertEquals((await wake(worker)).status, 503);

  const row = await failureOf(sql, invoice.id);
  assertEquals([row.resolution, row.attempts], ["applied", 1]);
  assertEquals(await retries(), NOTHING);
  assertEquals(
    (await storedEvent(sql, invoice.id)).notifications.length,
    1,
  );
});

Deno.test("if a worker dies during a retry, the next worker takes the event", async () => {
  const { invoice } = await earlyInvoice();
  await requestRetry(sql, invoice.id);
  const dying = await startWorker({ SUPABASE_URL: api.url });
  const killed = Promise.withResolvers<void>();
  api.intercept("billing_apply_events", async () => {
    await dying.kill();
    killed.resolve();
    return new Response(null, { status: 502 });
  });
  await Promise.all([wake(dying).catch(() => {}), killed.promise]);
  await endLease(sql, "retries");
  assertEquals(await retries(), { ...NOTHING, claimed: 1, applied: 1 });
  assertEquals(
    (await storedEvent(sql, invoice.id)).notifications.length,
    1,
  );
});
