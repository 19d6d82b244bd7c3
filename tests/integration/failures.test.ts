/**
 * The specification's errors: a verified event that fails is logged, stored and
 * answered with an error, so that the provider retries. The retry settles it.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect, storedEvent, subscriptionRecord } from "../support/tables.ts";

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

const send = (event: object) => deliver(receiver.url, event);

Deno.test("a failure is visible in the answer, the log and failed_events, and settled by a later retry", async () => {
  const subscription = uniqueId("sub");
  const update = subscriptionEvent("customer.subscription.updated", {
    subscription,
    status: "past_due",
  });

  for (const attempt of [1, 2]) {
    const answer = await send(update);
    assertEquals(answer.status, 500);
    assert(!answer.body.includes(subscription));
    const { failures, ledger } = await storedEvent(sql, update.id);
    assertEquals(ledger, []);
    assertEquals(failures.length, 1);
    const { event_id, type, payload, error, attempts, resolved_at } =
      failures[0] ?? {};
    assertEquals({ event_id, type, payload, attempts, resolved_at }, {
      event_id: update.id,
      type: "customer.subscription.updated",
      payload: JSON.parse(JSON.stringify(update)),
      attempts: attempt,
      resolved_at: null,
    });
    assert(String(error).includes(subscription), `${error}`);
  }

  const line = await receiver.logged((line) => line.event_id === update.id);
  assertEquals(
    [line.level, line.code, line.status, line.provider, line.type],
    [
      "error",
      "subscription_unknown",
      500,
      "a",
      "customer.subscription.updated",
    ],
  );
  assert(typeof line.duration_ms === "number");

  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
    created: (update.created ?? 0) - 1,
  });
  assertEquals((await send(creation)).status, 200);
  assertEquals((await send(update)).status, 200);
  assertEquals(
    (await subscriptionRecord(sql, subscription))?.status,
    "past_due",
  );
  const { failures, ledger } = await storedEvent(sql, update.id);
  assert(failures[0]?.resolved_at instanceof Date);
  assertEquals(failures[0]?.attempts, 2);
  assertEquals(ledger.length, 1);
});

Deno.test("an applied event is acknowledged even if it comes again in an unreadable shape", async () => {
  const event = subscriptionEvent("customer.subscription.created");
  assertEquals((await send(event)).status, 200);
  // As another endpoint of the provider, of another API version, sends it.
  const other = edited(event, { "data.object.items": { plan: "price_1" } });
  assertEquals((await send(other)).status, 200);
  const { failures, ledger } = await storedEvent(sql, event.id);
  assertEquals([failures, ledger.length], [[], 1]);
  const line = await receiver.logged(({ message, event_id }) =>
    message === "duplicate of an applied event" && event_id === event.id
  );
  assertEquals(line["code"], "event_invalid");
  assertEquals((await send({ ...other, id: uniqueId("evt") })).status, 422);
});
