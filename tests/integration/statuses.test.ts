/**
 * Every row of the design's status table, over real HTTP.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { edited } from "../../scripts/events/edited.ts";
import {
  paymentIntentEvent,
  subscriptionEvent,
} from "../../scripts/events/event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { slowRequest } from "../support/raw_request.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, post } from "../support/send.ts";
import { connect, rowCounts, storedEvent } from "../support/tables.ts";

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

function hashOf(body: string | Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

function creation() {
  return subscriptionEvent("customer.subscription.created", {
    subscription: uniqueId("sub"),
  });
}

Deno.test("200 OK for an applied event, a duplicate and an ignored type", async () => {
  const event = creation();
  for (const body of [event, event, paymentIntentEvent()]) {
    const answer = await deliver(receiver.url, body);
    assertEquals([answer.status, answer.body], [200, "OK"]);
  }
});

Deno.test("every path of the endpoint is served, and no other", async () => {
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
  for (const path of ["/", "//", "/billing-webhook/other", "/api/billing"]) {
    const answer = await storesNothing(() =>
      deliver(origin + path, creation())
    );
    assertEquals([path, answer.status, answer.body], [path, 404, ""]);
  }
});

Deno.test("401 Invalid signature without a signature, with a wrong one and with both providers'", async () => {
  const body = JSON.stringify(creation());
  const now = Math.floor(Date.now() / 1000);
  const wrong = `t=${now},v1=${"0".repeat(64)}`;
  const cases: Record<string, string>[] = [
    {},
    { "provider-a-signature": "" },
    { "provider-a-signature": wrong },
    { "provider-a-signature": "nonsense" },
    { "provider-b-signature": "0".repeat(64) },
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

Deno.test("405 with Allow for every other method", async () => {
  for (const method of ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    const answer = await storesNothing(() => post(receiver.url, { method }));
    assertEquals(
      [method, answer.status, answer.headers.get("allow"), answer.body],
      [method, 405, "POST", ""],
    );
  }
});

Deno.test("415 for a compressed body", async () => {
  const answer = await storesNothing(() =>
    post(receiver.url, {
      headers: { "content-encoding": "gzip" },
      body: "anything",
    })
  );
  assertEquals([answer.status, answer.body], [415, ""]);
});

Deno.test("413 over the limit, by header and by counting the stream", async () => {
  const large = new Uint8Array(1_048_577);
  const byHeader = await storesNothing(() => deliver(receiver.url, large));
  const byCounting = await storesNothing(() =>
    post(receiver.url, { body: new Blob([large]).stream() })
  );
  assertEquals([byHeader.status, byCounting.status], [413, 413]);

  const allowed = JSON.stringify({ type: "x", pad: "" }).length;
  const event = { type: "x", pad: "a".repeat(1_048_576 - allowed) };
  assertEquals((await deliver(receiver.url, event)).status, 200);
});

Deno.test("400 for a verified body that is empty, no JSON or no UTF-8, and it is stored", async () => {
  const cases = [
    ["body_empty", ""],
    ["body_not_json", `{"id": "${uniqueId("evt")}"`],
    ["body_not_text", Uint8Array.of(0xff, 0xfe, 0x00)],
  ] as const;
  for (const [code, body] of cases) {
    const answer = await deliver(receiver.url, body);
    assertEquals([code, answer.status], [code, 400]);
    const { failures } = await storedEvent(sql, `sha256:${hashOf(body)}`);
    // Elsewhere the other provider sends the same bytes.
    const own = failures.filter(({ provider }) => provider === "a");
    assertEquals(own.map((row) => row.error_code), [code]);
  }
});

Deno.test("422 for a handled type with a bad used field, and it is stored", async () => {
  const cases = {
    "data.object.items.data.0.price.id": undefined,
    "data.object.current_period_end": 1e12,
    "data.object.id": "sub_\u0000",
    "created": 1.5,
  };
  for (const [path, value] of Object.entries(cases)) {
    const event = edited(creation(), { [path]: value });
    const answer = await deliver(receiver.url, event);
    assertEquals([path, answer.status], [path, 422]);
    const { failures, ledger } = await storedEvent(sql, event.id);
    assertEquals([failures.length, ledger.length], [1, 0]);
  }
});

Deno.test("408 for a body that trickles, within its own time limit of 10 s", async () => {
  const started = Date.now();
  const { status } = await storesNothing(() => slowRequest(receiver.url));
  assertEquals(status, 408);
  const took = Date.now() - started;
  assert(took > 9_000 && took < 14_000, `answered after ${took} ms`);
});

Deno.test("500 for an event that cannot be applied, and it is stored", async () => {
  const event = subscriptionEvent("customer.subscription.deleted", {
    subscription: uniqueId("sub"),
  });
  const answer = await deliver(receiver.url, event);
  assertEquals(
    [answer.status, answer.body],
    [500, "Event could not be applied"],
  );
  assertEquals((await storedEvent(sql, event.id)).failures.length, 1);
});

Deno.test("503 with Retry-After while the subscription is locked for longer than the time limit", async () => {
  const event = creation();
  assertEquals((await deliver(receiver.url, event)).status, 200);
  const update = subscriptionEvent("customer.subscription.updated", {
    subscription: event.data.object.id,
    created: (event.created ?? 0) + 1,
  });

  await sql.begin(async (holder) => {
    await holder`
      select 1 from public.subscriptions
      where id = ${event.data.object.id} for update`;
    const answer = await deliver(receiver.url, update);
    assertEquals([answer.status, answer.body], [503, "Try again later"]);
    assert(Number(answer.headers.get("retry-after")) > 0);
  });

  const { failures } = await storedEvent(sql, update.id);
  assertEquals(failures[0]?.error_code, "record_locked");
  assertEquals((await deliver(receiver.url, update)).status, 200);
  assert((await storedEvent(sql, update.id)).failures[0]?.resolved_at);
});

Deno.test("503 with Retry-After while the database cannot be reached, and the log names the event", async () => {
  await using cutOff = await startReceiver({
    env: { SUPABASE_URL: "http://127.0.0.1:9" },
  });
  const event = creation();
  const answer = await storesNothing(() => deliver(cutOff.url, event));
  assertEquals([answer.status, answer.body], [503, "Try again later"]);
  assert(Number(answer.headers.get("retry-after")) > 0);
  const line = await cutOff.logged((line) => line.event_id === event.id);
  assertEquals(line.code, "failure_not_recorded");
});

Deno.test("500 while the provider's secret is missing, blank or has white space at its ends", async () => {
  for (const secret of ["", "   ", "whsec_", " secret", "secret\n", "a,,b"]) {
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

Deno.test("no reply and no log line repeats a secret, a signature or a payload", async () => {
  const marker = uniqueId("marker");
  const bodies = [
    `{"id":"${marker}`,
    { type: "invoice.payment_failed", id: "", data: { note: marker } },
    edited(creation(), { "data.object.metadata": { note: marker } }),
  ];
  for (const body of bodies) {
    const answer = await deliver(receiver.url, body);
    assert(answer.status >= 400);
    assert(!answer.body.includes(marker));
  }
  const output = receiver.output();
  assert(output.includes("event_invalid"));
  assert(!output.includes(marker));
  assert(!output.includes("localProvider"));
  assert(!/v1=|t=\d{10}/.test(output));
});
