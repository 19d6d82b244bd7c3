/**
 * From a failing event to the operator, with the worker in its own process:
 * what is sent and how often, and what the receiver of alerts cannot hold up.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { freePort } from "../support/free_port.ts";
import {
  alertEnvironment,
  type Message,
  startNotifiedEndpoint,
  URL_SECRET,
} from "../support/notified_endpoint.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { connect } from "../support/tables.ts";
import {
  failureOf,
  repair,
  requestRetry,
  settleLeftovers,
  takeTurn,
} from "../support/triage.ts";
import { NO_COUNTS, startWorker } from "../support/worker.ts";
import {
  endPauses,
  outboxRow,
  oweNotifications,
  putOffAll,
} from "../support/outbox.ts";
import { withoutAccount } from "../support/without_account.ts";

const sql = connect();
const accounts = startNotifiedEndpoint();
const operator = startNotifiedEndpoint();
const env = { ...accounts.env, ...alertEnvironment(operator) };
const receiver = await startReceiver();
const worker = await startWorker(env);
const second = await startWorker(env);
Deno.test.afterAll(async () => {
  await forgetAlerts();
  for (const used of [worker, second, receiver, accounts, operator]) {
    await used[Symbol.asyncDispose]();
  }
  await sql.end();
});

async function forgetAlerts(): Promise<void> {
  await sql`truncate billing.alerts`;
}

/** Nothing is open, owed or reported, and nobody asked for a pause. */
async function beginAnew(): Promise<void> {
  await settleLeftovers(sql);
  await putOffAll(sql);
  await endPauses(sql);
  await forgetAlerts();
  accounts.answerWith(() => new Response("OK"));
  operator.answerWith(() => new Response("OK"));
}

/** Makes failures with one error code; returns the newest one's event. */
async function failMany(count: number, code: string): Promise<string> {
  const ids = Array.from({ length: count }, () => uniqueId("evt"));
  await sql`
    select public.billing_record_failed_event(
      'a', id, '{}', 'text', ${code}, 'made by a test', 'invoice.payment_failed'
    ) from unnest(${ids}::text[]) as id`;
  return ids.at(-1)!;
}

/** One turn; what arrived at the operator in it. */
async function alerted(by: ServedFunction = worker): Promise<Message[]> {
  const before = operator.arrivals.length;
  await takeTurn(by);
  assertEquals(operator.refused, []);
  return operator.arrivals.slice(before).map(({ message }) => message);
}

Deno.test("the operator is alerted of an event that fails, and told when it is resolved", async () => {
  await beginAnew();
  const event = edited(
    subscriptionEvent("customer.subscription.created", {
      subscription: uniqueId("sub"),
    }),
    { "data.object.customer": uniqueId("cus") },
  );
  const refused = await deliver(receiver.url, withoutAccount(event));
  assertEquals(refused.status, 422);

  const [opened, ...others] = await alerted();
  assertEquals(others, []);
  const { error } = await failureOf(sql, event.id);
  const [times] = await sql`
    select first_failed_at, last_failed_at from billing.failed_events
    where event_id = ${event.id}`;
  const [row] = await sql`select opened_at from billing.alerts`;
  assertEquals(opened, {
    type: "billing.failure_opened",
    timestamp: opened!.timestamp,
    data: {
      error_code: "event_invalid",
      error,
      open: 1,
      new: 1,
      first_failed_at: times!["first_failed_at"].toISOString(),
      last_failed_at: times!["last_failed_at"].toISOString(),
      provider: "a",
      event_id: event.id,
      event_type: "customer.subscription.created",
    },
  });
  assert(error.includes("accountId is missing"), error);
  assertEquals(await alerted(), []);

  // The provider sends it again, which is no news.
  await deliver(receiver.url, withoutAccount(event));
  assertEquals(await alerted(), []);

  // The turn that retries it says so already.
  await repair(sql, event.id, event);
  await requestRetry(sql, event.id);
  const [resolved, ...more] = await alerted();
  assertEquals(more, []);
  assertEquals(resolved, {
    type: "billing.failures_resolved",
    timestamp: resolved!.timestamp,
    data: {
      error_code: "event_invalid",
      resolved: 1,
      opened_at: row!["opened_at"].toISOString(),
    },
  });
  assertEquals(await alerted(), []);
  assertEquals(accounts.about(event.id), []);
});

Deno.test("workers that are woken at once send each alert once", async () => {
  await beginAnew();
  await failMany(2, "internal_error");
  await failMany(1, "apply_failed");
  const before = operator.arrivals.length;
  await Promise.all([worker, second, worker, second].map(takeTurn));
  await takeTurn(worker);
  assertEquals(operator.arrivals.length - before, 2);
});

for (const status of [500, 429] as const) {
  Deno.test(`an alert that is answered ${status} is sent again, with the same id, and holds up no notification`, async () => {
    await beginAnew();
    const [event] = await oweNotifications(sql);
    await failMany(1, "internal_error");
    operator.answerWith(() =>
      new Response("", { status, headers: { "retry-after": "3600" } })
    );
    const first = operator.arrivals.length;
    const { alerts, notifications } = await takeTurn(worker);
    assertEquals([alerts["claimed"], alerts["sent"]], [1, 0]);
    assertEquals(notifications, { ...NO_COUNTS, claimed: 1, sent: 1 });
    assertEquals((await outboxRow(sql, event)).status, "sent");

    operator.answerWith(() => new Response("OK"));
    if (status === 429) {
      assertEquals(await alerted(), []);
      await endPauses(sql);
    }
    assertEquals((await alerted()).length, 1);
    const [id, ...others] = operator.arrivals.slice(first).map(({ id }) => id);
    assertEquals(others, [id]);
    assertEquals(await alerted(), []);
  });
}

Deno.test("a receiver of notifications that is slow and asks for a pause holds up no alert", async () => {
  await beginAnew();
  const [event] = await oweNotifications(sql, { count: 2 });
  const arrived = Promise.withResolvers<void>();
  operator.answerWith(() => {
    arrived.resolve();
    return new Response("OK");
  });
  // Answers only when the alert has arrived.
  accounts.answerWith(async () => {
    await arrived.promise;
    return new Response("", {
      status: 429,
      headers: { "retry-after": "3600" },
    });
  });
  await failMany(1, "internal_error");
  assertEquals((await alerted()).length, 1);
  assertEquals((await outboxRow(sql, event)).status, "pending");

  await failMany(1, "record_locked");
  assertEquals((await alerted()).length, 1);
});

Deno.test("a receiver that is down gets the alert later, and nothing about what was resolved meanwhile", async () => {
  await beginAnew();
  const port = freePort();
  await using away = await startWorker({
    ...env,
    ALERT_URL: `http://127.0.0.1:${port}/?token=${URL_SECRET}`,
  });
  const resolvedMeanwhile = await failMany(1, "internal_error");
  await failMany(1, "record_locked");
  assertEquals((await takeTurn(away)).alerts["failed"], 2);
  await sql`
    select billing.resolve_failed_event(${resolvedMeanwhile}, 'a test', 'us')`;
  assertStringIncludes(away.output(), "ALERT_URL");
  assert(!away.output().includes(URL_SECRET), away.output());

  await using back = startNotifiedEndpoint({ port });
  await takeTurn(away);
  assertEquals(
    back.arrivals.map(({ message: { type, data } }) => [
      type,
      data["error_code"],
    ]),
    [["billing.failure_opened", "record_locked"]],
  );
});
