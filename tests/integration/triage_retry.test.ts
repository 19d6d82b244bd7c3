/**
 * Retries on request: each runs through the code that handles deliveries and
 * through the ledger, and its outcome is on the row.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startApiProxy } from "../support/api_proxy.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";
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
  ...events: object[]
): Promise<void> {
  for (const event of events) {
    const { status, body } = await deliver(receiver.url, event);
    assertEquals(status, expected, body);
  }
}

/** Makes one run, and returns its counts of retries. */
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
