/**
 * Statuses that belong to no row of the catalogue of bad input: each path of
 * the endpoint, the largest body, and one provider's fault beside the other
 * provider. The catalogue (tests/catalogue) has the rest of the status table.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, post } from "../support/send.ts";
import { connect, rowCounts } from "../support/tables.ts";

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Runs it, and shows that it left nothing behind in any table. */
async function storesNothing<T>(run: () => Promise<T>): Promise<T> {
  const before = await rowCounts(sql);
  const result = await run();
  assertEquals(await rowCounts(sql), before);
  return result;
}

function creation() {
  return subscriptionEvent("customer.subscription.created");
}

Deno.test("every path of the endpoint is served, and no part of one", async () => {
  const origin = new URL(receiver.url).origin;
  const served = [
    "/functions/v1/billing-webhook",
    "/billing-webhook",
    "/functions/v1/billing-webhook/api/billing/webhook",
    "/billing-webhook/api/billing/webhook",
    "/api/billing/webhook",
  ];
  for (const path of served) {
    const answer = await deliver(origin + path, paymentIntentEvent());
    assertEquals([path, answer.status], [path, 200]);
  }
  const answer = await storesNothing(() =>
    deliver(`${origin}/api/billing`, creation())
  );
  assertEquals([answer.status, answer.body], [404, ""]);
});

Deno.test("401 for signatures of both providers, and for another provider's header", async () => {
  const body = JSON.stringify(creation());
  const wrong = `t=${Math.floor(Date.now() / 1000)},v1=${"0".repeat(64)}`;
  const cases: Record<string, string>[] = [
    { "provider-a-signature": wrong, "provider-b-signature": "0".repeat(64) },
    { "stripe-signature": wrong },
  ];
  for (const headers of cases) {
    const answer = await storesNothing(() =>
      post(receiver.url, { headers, body })
    );
    assertEquals([answer.status, answer.body], [401, "Invalid signature"]);
  }
});

Deno.test("200 for a body of exactly the limit", async () => {
  const frame = JSON.stringify({ type: "x", pad: "" }).length;
  const event = { type: "x", pad: "a".repeat(1_048_576 - frame) };
  assertEquals((await deliver(receiver.url, event)).status, 200);
});

Deno.test("500 while a provider's secret is unusable, and 200 for the other provider", async () => {
  for (const secret of ["   ", "a,,b"]) {
    await using refusing = await startReceiver({
      env: { PROVIDER_A_SIGNING_SECRET: secret },
    });
    const answer = await storesNothing(() => deliver(refusing.url, creation()));
    assertEquals([secret, answer.status], [secret, 500]);
    const atStart = await refusing.logged((line) => line.provider === "a");
    assert(String(atStart.error).includes("PROVIDER_A_SIGNING_SECRET"));
    const other = await deliver(refusing.url, paymentIntentEvent(), {
      provider: "b",
    });
    assertEquals(other.status, 200);
  }
});
