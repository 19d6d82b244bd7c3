/**
 * Many retries, with two workers that are woken together.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { settleLeftovers, takeTurn } from "../support/triage.ts";
import { startWorker } from "../support/worker.ts";

/** Deliveries that a provider has under way at a time. */
const TOGETHER = 25;

const sql = connect();
const receiver = await startReceiver();
const workers = await Promise.all([startWorker({}), startWorker({})]);
Deno.test.beforeEach(() => settleLeftovers(sql));
Deno.test.afterAll(async () => {
  for (const worker of workers) await worker[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Delivers all of them, and has them come to one answer. */
async function sendAll(
  events: readonly object[],
  expected: number,
): Promise<void> {
  const left = events.values();
  const statuses = new Set<number>();
  await Promise.all(Array.from({ length: TOGETHER }, async () => {
    for (const event of left) {
      statuses.add((await deliver(receiver.url, event)).status);
    }
  }));
  assertEquals([...statuses], [expected]);
}

/** How many rows there are of these events, by what they say. */
async function tally(events: readonly { id: string }[]) {
  const ids = events.map(({ id }) => id);
  const [row] = await sql`
    select
      (select count(*)::int from billing.processed_events where event_id = any(${ids})) as ledger,
      (select count(*)::int from billing.notifications where event_id = any(${ids})) as notifications,
      (select count(*)::int from billing.failed_events
        where event_id = any(${ids}) and resolution = 'applied') as resolved,
      (select count(*)::int from billing.failed_events
        where event_id = any(${ids}) and attempts = 1) as failed_once`;
  return { ...row };
}

Deno.test("360 failures are retried once each, and none overtakes the creation that it waits for", async () => {
  const COUNT = 120;
  const second = Math.floor(Date.now() / 1000) - 600;
  const histories = Array.from({ length: COUNT }, (_, number) => {
    const subscription = uniqueId("sub");
    // Of one second, as providers date what comes of one act; and the ids sort
    // the wrong way round.
    const created = second + number % 7;
    const creation = edited(
      subscriptionEvent("customer.subscription.created", {
        id: uniqueId("evt_z"),
        subscription,
        created,
      }),
      { "data.object.metadata": {} },
    );
    const update = subscriptionEvent("customer.subscription.updated", {
      id: uniqueId("evt_m"),
      subscription,
      created,
      status: "past_due",
    });
    const invoice = invoiceEvent({
      id: uniqueId("evt_a"),
      subscription,
      created,
    });
    return { subscription, creation, update, invoice };
  });
  const invoices = histories.map(({ invoice }) => invoice);
  const updates = histories.map(({ update }) => update);
  const creations = histories.map(({ creation }) => creation);
  await sendAll([...invoices, ...updates], 500);
  await sendAll(creations, 422);
  await sql`
    update billing.failed_events
    set payload = jsonb_set(payload, '{data,object,metadata,accountId}', '"acc_6"')
    where event_id = any(${creations.map(({ id }) => id)})`;

  await sql`select billing.retry_failed_events()`;
  const turns = await Promise.all(workers.map((worker) => takeTurn(worker)));
  const sum = (name: string) =>
    turns.reduce((total, { retries }) => total + retries[name]!, 0);
  assertEquals(
    ["claimed", "applied", "failed", "duplicate"].map(sum),
    [3 * COUNT, 3 * COUNT, 0, 0],
  );
  for (const events of [creations, updates, invoices]) {
    assertEquals(await tally(events), {
      ledger: COUNT,
      notifications: events === invoices ? COUNT : 0,
      resolved: COUNT,
      failed_once: COUNT,
    });
  }
  const [records] = await sql`
    select count(*)::int as all, count(*) filter (
      where status = 'past_due' and account_id = 'acc_6'
    )::int as right
    from billing.subscriptions
    where id = any(${histories.map(({ subscription }) => subscription)})`;
  assertEquals({ ...records }, { all: COUNT, right: COUNT });
});
