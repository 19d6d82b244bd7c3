/** From a failed payment to the account's endpoint, with workers of their own. */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { startNotifiedEndpoint } from "../support/notified.ts";
import {
  endPauses,
  outboxRow,
  oweNotifications,
  putOffAll,
} from "../support/queues.ts";
import {
  NO_COUNTS,
  type ServedFunction,
  startReceiver,
  startWorker,
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
