/** Requested retries, by workers in processes of their own. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startApiProxy } from "../support/api_proxy.ts";
import {
  startReceiver,
  startWorker,
  takeTurn,
  wake,
} from "../support/functions.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";
import {
  failureOf,
  repair,
  requestRetry,
  settleLeftovers,
} from "../support/queues.ts";

const NOTHING = {
  claimed: 0,
  failed: 0,
  applied: 0,
  duplicate: 0,
  stale: 0,
  ignored: 0,
};
const APPLIED = { ...NOTHING, claimed: 1, applied: 1 };

const sql = connect();
const receiver = await startReceiver();
const api = await startApiProxy();
// Without a channel, notifications stay pending and can be counted.
const worker = await startWorker({ SUPABASE_URL: api.url });
const second = await startWorker({});
Deno.test.beforeEach(() => settleLeftovers(sql));
Deno.test.afterAll(async () => {
  for (const used of [second, worker, api, receiver]) {
    await used[Symbol.asyncDispose]();
  }
  await sql.end();
});

/** Delivers an event that comes to this answer. */
async function send(expected: number, event: object): Promise<void> {
  const { status, body } = await deliver(receiver.url, event);
  assertEquals(status, expected, body);
}

/** Makes one run, and returns its counts of retries. */
async function retries(): Promise<Record<string, number>> {
  return (await takeTurn(worker)).retries;
}

/** A failed invoice that came before its subscription; its retry is requested. */
async function earlyInvoice() {
  const subscription = uniqueId("sub");
  const invoice = invoiceEvent({ subscription });
  await send(500, invoice);
  await send(
    200,
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
  await requestRetry(sql, invoice.id);
  return invoice;
}

async function assertAppliedOnce(id: string): Promise<void> {
  const { ledger, notifications } = await storedEvent(sql, id);
  assertEquals([ledger.length, notifications.length], [1, 1]);
  const { resolution, attempts, retry_requested_at } = await failureOf(sql, id);
  assertEquals([resolution, attempts, retry_requested_at], [
    "applied",
    1,
    null,
  ]);
}

Deno.test("an event without an id is applied under the id that its repair gives it", async () => {
  const subscription = uniqueId("sub");
  await send(
    200,
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
  const invoice = invoiceEvent({ subscription });
  const nameless = edited(invoice, { id: undefined });
  await send(422, nameless);
  const hash = createHash("sha256").update(JSON.stringify(nameless));
  const filedAs = `sha256:${hash.digest("hex")}`;
  await repair(sql, filedAs, invoice);
  await requestRetry(sql, filedAs);
  assertEquals(await retries(), APPLIED);
  assertEquals((await failureOf(sql, filedAs)).resolution, "applied");
  const { notifications } = await storedEvent(sql, invoice.id);
  assertEquals(notifications.length, 1);
  await send(200, nameless);
});

Deno.test("an event that the provider delivers during its retry is applied once", async () => {
  const invoice = await earlyInvoice();
  api.intercept("billing_apply_events", () => send(200, invoice));
  assertEquals(await retries(), { ...NOTHING, claimed: 1, duplicate: 1 });
  await assertAppliedOnce(invoice.id);
});

for (
  const [name, next] of [
    ["billing_apply_events", APPLIED],
    // What was applied is settled all the same.
    ["billing_settle_failed_events", NOTHING],
  ] as const
) {
  Deno.test(`if ${name} fails, the next run does what is left`, async () => {
    const { id } = await earlyInvoice();
    api.intercept(
      name,
      () => Promise.resolve(new Response("upstream is gone", { status: 502 })),
    );
    assertEquals((await wake(worker)).status, 503);
    assertEquals(await retries(), next);
    await assertAppliedOnce(id);
  });
}

Deno.test("an event that a setting lets in no more stays open, and a retry with the setting back applies it", async () => {
  const { id } = await earlyInvoice();
  await using live = await startWorker({ PROVIDER_A_MODE: "live" });
  const { retries: counts } = await takeTurn(live);
  assertEquals(counts, { ...NOTHING, claimed: 1, failed: 1 });
  const { error_code, error, resolution, next_retry_at } = await failureOf(
    sql,
    id,
  );
  assertEquals([error_code, resolution, next_retry_at], [
    "no_longer_handled",
    null,
    null,
  ]);
  assertStringIncludes(error, "PROVIDER_A_MODE");
  assertEquals(await retries(), NOTHING);
  await requestRetry(sql, id);
  assertEquals(await retries(), APPLIED);
});

Deno.test("of workers that are woken together, one retries, each event once and none before the creation that it waits for", async () => {
  const subscription = uniqueId("sub");
  // Of one second, as providers date what comes of one act; and the ids sort the
  // wrong way round.
  const created = Math.floor(Date.now() / 1000) - 600;
  const options = { subscription, created };
  const creation = subscriptionEvent("customer.subscription.created", {
    ...options,
    id: uniqueId("evt_z"),
    account: null,
  });
  const update = subscriptionEvent("customer.subscription.updated", {
    ...options,
    id: uniqueId("evt_m"),
    status: "past_due",
  });
  const invoice = invoiceEvent({ ...options, id: uniqueId("evt_a") });
  await send(500, invoice);
  await send(500, update);
  await send(422, creation);
  const fixed = { "data.object.metadata.accountId": "acc_6" };
  await repair(sql, creation.id, edited(creation, fixed));
  await sql`select billing.retry_failed_events()`;
  const turns = await Promise.all([worker, second].map((it) => takeTurn(it)));
  const counts = turns.map(({ retries }) => retries)
    .sort((a, b) => b["claimed"]! - a["claimed"]!);
  assertEquals(counts, [{ ...NOTHING, claimed: 3, applied: 3 }, NOTHING]);
  const [record] = await sql`
    select status, account_id from billing.subscriptions
    where id = ${subscription}`;
  assertEquals({ ...record }, { status: "past_due", account_id: "acc_6" });
  await assertAppliedOnce(invoice.id);
});
