/**
 * From a failed payment to the account: what is sent, how often, and the effect
 * of each answer, with the worker in its own process.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { freePort } from "../support/free_port.ts";
import {
  NOTIFICATION_SECRET,
  notifiedEnvironment,
  startNotifiedEndpoint,
  URL_SECRET,
} from "../support/notified_endpoint.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent } from "../support/tables.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import {
  makeDue,
  outboxRow,
  oweNotifications,
  putOffAll,
} from "../support/outbox.ts";

const SECOND_MS = 1000;

const sql = connect();
const endpoint = startNotifiedEndpoint();
const worker = await startWorker(endpoint.env);
Deno.test.afterAll(async () => {
  await worker[Symbol.asyncDispose]();
  await endpoint[Symbol.asyncDispose]();
  await sql.end();
});

Deno.test("an account is notified of a failed payment once, however often its event is delivered", async () => {
  await putOffAll(sql);
  await using receiver = await startReceiver();
  const subscription = uniqueId("sub");
  const account = uniqueId("acc");
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
    account,
  });
  assertEquals((await deliver(receiver.url, creation)).status, 200);
  const event = edited(invoiceEvent({ subscription, invoice: "in_7" }), {
    "data.object.hosted_invoice_url": "https://pay.example.com/in_7",
    "data.object.next_payment_attempt": Date.parse("2027-01-02T09:00:00Z") /
      1000,
  });
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => deliver(receiver.url, event)),
  );
  assertEquals(answers.map(({ status }) => status), Array(10).fill(200));

  endpoint.answerWith(() => new Response("OK"));
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  assertEquals((await deliver(receiver.url, event)).status, 200);
  assertEquals(await worker.wake(), NO_COUNTS);

  const { notifications } = await storedEvent(sql, event.id);
  assertEquals(notifications.length, 1);
  const [row] = notifications;
  const arrivals = endpoint.about(event.id);
  assertEquals(arrivals.length, 1);
  assertEquals(arrivals[0]?.id, row?.id);
  assertEquals(arrivals[0]?.headers.get("content-type"), "application/json");
  assertEquals(arrivals[0]?.message, {
    type: "billing.payment_failed",
    timestamp: (row?.created_at as Date).toISOString(),
    data: {
      account_id: account,
      subscription_id: subscription,
      provider: "a",
      event_id: event.id,
      invoice_id: "in_7",
      hosted_invoice_url: "https://pay.example.com/in_7",
      amount_due: 1900,
      currency: "eur",
      attempt_count: 1,
      next_payment_attempt: "2027-01-02T09:00:00.000Z",
    },
  });
  const { status, attempts, last_error, sent_at } = await outboxRow(
    sql,
    event.id,
  );
  assertEquals([status, attempts, last_error], ["sent", 1, null]);
  assert(sent_at instanceof Date);
});

Deno.test("NOTIFY_ONCE_PER_INVOICE notifies of an invoice once, even if its events arrive at once", async () => {
  await using receiver = await startReceiver({
    env: { NOTIFY_ONCE_PER_INVOICE: "true" },
  });
  await using another = await startReceiver({
    env: { NOTIFY_ONCE_PER_INVOICE: "true" },
  });
  const subscription = uniqueId("sub");
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
  });
  assertEquals((await deliver(receiver.url, creation)).status, 200);
  const invoices = Array.from({ length: 5 }, () => uniqueId("in"));
  const answers = await Promise.all(
    [receiver, another].flatMap(({ url }) =>
      invoices.flatMap((invoice) =>
        [1, 2, 3].map(() =>
          deliver(url, invoiceEvent({ subscription, invoice }))
        )
      )
    ),
  );
  assertEquals(new Set(answers.map(({ status }) => status)), new Set([200]));
  const rows = await sql`
    select invoice_id, count(*)::int from billing.notifications
    where subscription_id = ${subscription} group by 1`;
  assertEquals(
    rows.map(({ invoice_id, count }) => [invoice_id, count]).sort(),
    invoices.map((invoice) => [invoice, 1]).sort(),
  );
});

// The other answers are in row 62 of the catalogue and in webhookChannel()'s
// tests, and the waits in those of
// billing_settle_notifications().
Deno.test("a failed attempt is in the log, and tried again when its receiver says", async () => {
  const [event] = await oweNotifications(sql);
  endpoint.answerWith(() =>
    new Response("<html>no</html>", {
      status: 503,
      headers: { "retry-after": "120" },
    })
  );
  const beginMs = Date.now();
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, failed: 1 });
  const endMs = Date.now();
  assertEquals(endpoint.about(event).length, 1);
  const row = await outboxRow(sql, event);
  assertEquals(
    [row.status, row.attempts, row.last_error],
    ["pending", 1, "the receiver answered 503"],
  );
  // The database's clock was read in between.
  const askedAtMs = row.next_attempt_at.getTime() - 120 * SECOND_MS;
  assert(askedAtMs >= beginMs - 1 && askedAtMs <= endMs + 1, `${askedAtMs}`);
  const line = await worker.logged((line) => line.event_id === event);
  assertEquals(
    [line.level, line.notification_id, line.result, line.error],
    ["warn", row.id, "failed", row.last_error],
  );
});

Deno.test("429 does not count as an attempt, and pauses all notifications for a minute", async () => {
  const [first, second] = await oweNotifications(sql, { count: 2 });
  await sql`
    update billing.notifications set attempts = 9
    where event_id in ${sql([first, second!])}`;
  endpoint.answerWith(() => new Response(null, { status: 429 }));
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 2, limited: 2 });
  for (const event of [first, second!]) {
    const row = await outboxRow(sql, event);
    assertEquals(
      [row.status, row.attempts, row.last_error],
      ["pending", 9, "the receiver answered 429"],
    );
    const wait = row.next_attempt_at.getTime() - Date.now();
    assert(wait > 55 * SECOND_MS && wait <= 60 * SECOND_MS, `${wait} ms`);
  }
  await sql`
    update billing.notifications set next_attempt_at = now()
    where event_id = ${first}`;
  endpoint.answerWith(() => new Response("OK"));
  assertEquals(await worker.wake(), NO_COUNTS);
  assertEquals(endpoint.about(first).length, 1);

  await makeDue(sql, first);
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  assertEquals((await outboxRow(sql, first)).attempts, 10);
});

Deno.test("a notification is delivered once its receiver is up again", async () => {
  const port = freePort();
  await using worker = await startWorker(notifiedEnvironment(port));
  const [event] = await oweNotifications(sql);

  for (const attempt of [1, 2]) {
    assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, failed: 1 });
    const row = await outboxRow(sql, event);
    assertEquals([row.status, row.attempts], ["pending", attempt]);
    assertMatch(`${row.last_error}`, /refused/);
    assert(!row.last_error?.includes(URL_SECRET), `${row.last_error}`);
    assertEquals(await worker.wake(), NO_COUNTS);
    await makeDue(sql, event);
  }

  await using endpoint = startNotifiedEndpoint({ port });
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  const { id, status, attempts, last_error } = await outboxRow(sql, event);
  assertEquals([status, attempts], ["sent", 3]);
  assertMatch(`${last_error}`, /refused/);
  assertEquals(endpoint.arrivals.map((arrival) => arrival.id), [id]);
  assert(!worker.output().includes(URL_SECRET), worker.output());
});

Deno.test("everything that was sent verified, and no secret is in the log", async () => {
  assertEquals(endpoint.refused, []);
  const output = worker.output();
  assertStringIncludes(output, "notification not delivered");
  const { secret, serviceRole } = await localKeys();
  for (const text of [NOTIFICATION_SECRET, URL_SECRET, secret, serviceRole]) {
    assert(!output.includes(text), `${text} is in the log`);
  }
});
