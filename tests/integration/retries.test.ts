/** Requested retries, by workers in processes of their own. */
import { assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver, startWorker, takeTurn } from "../support/functions.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";
import { failureOf, repair, settleLeftovers } from "../support/queues.ts";

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
// Without a channel, notifications stay pending and can be counted.
const worker = await startWorker({});
const second = await startWorker({});
Deno.test.beforeEach(() => settleLeftovers(sql));
Deno.test.afterAll(async () => {
  for (const used of [second, worker, receiver]) {
    await used[Symbol.asyncDispose]();
  }
  await sql.end();
});

async function send(expected: number, event: object): Promise<void> {
  const { status, body } = await deliver(receiver.url, event);
  assertEquals(status, expected, body);
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
