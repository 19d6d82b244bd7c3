/**
 * From a failed payment to the account's endpoint, with workers in processes of
 * their own. What is sent is in notification_examples.test.ts, what each answer
 * means in the channels' tests and row 62 of the catalogue, and what is claimed
 * and settled in pgTAP.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { freePort } from "../support/machine.ts";
import {
  alertEnvironment,
  notifiedEnvironment,
  startNotifiedEndpoint,
  URL_SECRET,
} from "../support/notified.ts";
import {
  endPauses,
  makeDue,
  outboxRow,
  oweNotifications,
  putOffAll,
  settleLeftovers,
} from "../support/queues.ts";
import {
  NO_COUNTS,
  type ServedFunction,
  startReceiver,
  startWorker,
  takeTurn,
} from "../support/functions.ts";
import { deliver, post } from "../support/send.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("an account is notified of a failed payment once, however often its event is delivered and however many workers are woken", async () => {
  await using stack = new AsyncDisposableStack();
  const endpoint = stack.use(startNotifiedEndpoint());
  const receiver = stack.use(await startReceiver());
  const first = stack.use(await startWorker(endpoint.env));
  const second = stack.use(await startWorker(endpoint.env));
  await putOffAll(sql);
  await endPauses(sql);
  const subscription = uniqueId("sub");
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
  });
  assertEquals((await deliver(receiver.url, creation)).status, 200);
  const event = invoiceEvent({ subscription });
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => deliver(receiver.url, event)),
  );
  assertEquals(answers.map(({ status }) => status), Array(10).fill(200));

  const held = Promise.withResolvers<void>();
  stack.defer(held.resolve);
  endpoint.answerWith(() => held.promise.then(() => new Response("OK")));
  const call = first.wake();
  await endpoint.arrived(event.id);
  // The queue is the first one's.
  assertEquals(await second.wake(), NO_COUNTS);
  held.resolve();
  assertEquals(await call, { ...NO_COUNTS, claimed: 1, sent: 1 });
  assertEquals((await deliver(receiver.url, event)).status, 200);
  assertEquals(await second.wake(), NO_COUNTS);
  const row = await outboxRow(sql, event.id);
  assertEquals([row.status, row.attempts], ["sent", 1]);
  assertEquals(endpoint.arrivals.map(({ id }) => id), [row.id]);
  assertEquals(endpoint.refused, []);
});

Deno.test("NOTIFY_ONCE_PER_INVOICE notifies of an invoice once, even if its events arrive at once", async () => {
  const env = { NOTIFY_ONCE_PER_INVOICE: "true" };
  await using receiver = await startReceiver({ env });
  await using another = await startReceiver({ env });
  const subscription = uniqueId("sub");
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
  });
  assertEquals((await deliver(receiver.url, creation)).status, 200);
  const invoices = Array.from({ length: 5 }, () => uniqueId("in")).sort();
  const events = [...invoices, ...invoices, ...invoices]
    .map((invoice) => invoiceEvent({ subscription, invoice }));
  const answers = await Promise.all(
    events.map((event, i) =>
      deliver(i % 2 === 0 ? receiver.url : another.url, event)
    ),
  );
  assertEquals([...new Set(answers.map(({ status }) => status))], [200]);
  const rows = await sql`
    select invoice_id from billing.notifications
    where subscription_id = ${subscription} order by invoice_id collate "C"`;
  assertEquals(rows.map((row) => row["invoice_id"]), invoices);
});

Deno.test("a notification is delivered once its receiver is up again, and no log has its URL", async () => {
  const port = freePort();
  await using worker = await startWorker(notifiedEnvironment(port));
  const [event] = await oweNotifications(sql);

  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, failed: 1 });
  const failed = await outboxRow(sql, event);
  assertEquals([failed.status, failed.attempts], ["pending", 1]);
  assertMatch(`${failed.last_error}`, /refused/);
  const line = await worker.logged(({ event_id }) => event_id === event);
  assertEquals(
    [line.level, line.notification_id, line.result, line.error],
    ["warn", failed.id, "failed", failed.last_error],
  );

  await makeDue(sql, event);
  await using endpoint = startNotifiedEndpoint({ port });
  assertEquals(await worker.wake(), { ...NO_COUNTS, claimed: 1, sent: 1 });
  const { status, attempts } = await outboxRow(sql, event);
  assertEquals([status, attempts], ["sent", 2]);
  assertEquals(endpoint.arrivals.map(({ id }) => id), [failed.id]);
  assert(!worker.output().includes(URL_SECRET), worker.output());
});

Deno.test("an alert that is answered 429 holds up no notification to the same host, and is sent after the pause", async () => {
  await using endpoint = startNotifiedEndpoint();
  const env = { ...endpoint.env, ...alertEnvironment(endpoint) };
  await using worker = await startWorker(env);
  await settleLeftovers(sql);
  await sql`truncate billing.alerts`;
  const [event] = await oweNotifications(sql);
  const failing = uniqueId("evt");
  await sql`
    select public.billing_record_failed_event(
      'a', ${failing}, '{}', 'text', 'event_invalid', 'Failed', 'x'
    )`;
  endpoint.answerWith(({ message }) =>
    message.type === "billing.failure_opened"
      ? new Response("", { status: 429, headers: { "retry-after": "3600" } })
      : new Response("OK")
  );
  const limited = { ...NO_COUNTS, claimed: 1, limited: 1 };
  const sent = { ...NO_COUNTS, claimed: 1, sent: 1 };
  const { alerts, notifications } = await takeTurn(worker);
  assertEquals([alerts, notifications], [limited, sent]);
  assertEquals((await outboxRow(sql, event)).status, "sent");

  endpoint.answerWith(() => new Response("OK"));
  // The pause is the alerts' alone.
  await sql`
    update billing.notifications set status = 'pending', next_attempt_at = now()
    where event_id = ${event}`;
  const meanwhile = await takeTurn(worker);
  assertEquals([meanwhile.alerts, meanwhile.notifications], [NO_COUNTS, sent]);
  await endPauses(sql);
  assertEquals((await takeTurn(worker)).alerts, sent);
  assertEquals((await takeTurn(worker)).alerts, NO_COUNTS);
  const [id, again, ...others] = endpoint.about(failing).map(({ id }) => id);
  assertEquals([again, others], [id, []]);
});

Deno.test("a worker delivers for callers with a secret key of its project, under either name of the setting, and for nobody else", async () => {
  const { secret, publishable, anon, serviceRole } = await localKeys();
  const second = "sb_secret_second_0123456789abcdefghij_klmnopqr";
  await using endpoint = startNotifiedEndpoint();
  const secrets = { automation: second, default: secret };
  await using named = await startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: JSON.stringify(secrets),
  });
  // With the key of older projects alone.
  await using legacy = await startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: "",
    SUPABASE_PUBLISHABLE_KEYS: "",
  });
  const [event] = await oweNotifications(sql);
  const call = async (worker: ServedFunction, headers: HeadersInit) => {
    const answer = await post(worker.url, { headers });
    assertEquals(answer.headers.get("access-control-allow-origin"), null);
    for (const key of [secret, publishable, anon, serviceRole]) {
      assert(!answer.body.includes(key), answer.body);
    }
    return answer.status;
  };
  for (
    const headers of [
      {},
      { apikey: "" },
      { apikey: secret.slice(0, -1) },
      { apikey: secret.toUpperCase() },
      { apikey: publishable },
      { apikey: anon },
      { authorization: `Bearer ${serviceRole}` },
      { apikey: publishable, authorization: `Bearer ${secret}` },
    ]
  ) {
    const answers = [await call(named, headers), await call(legacy, headers)];
    assertEquals(answers, [401, 401], JSON.stringify(headers));
  }
  assertEquals(await call(named, { apikey: serviceRole }), 401);
  assertEquals(await call(legacy, { apikey: secret }), 401);
  assertEquals((await outboxRow(sql, event)).attempts, 0);
  for (
    const [worker, apikey] of [
      [named, secret],
      [named, second],
      [legacy, serviceRole],
    ] as const
  ) {
    const [event] = await oweNotifications(sql);
    assertEquals(await call(worker, { apikey }), 200);
    assertEquals((await outboxRow(sql, event)).status, "sent");
  }
});
