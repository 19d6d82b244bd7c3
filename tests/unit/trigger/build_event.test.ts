import { assertEquals, assertNotEquals } from "@std/assert";
import {
  buildEvent,
  waitBeforeMs,
} from "../../../scripts/trigger/build_event.ts";
import type { SubscriptionObject } from "../../../scripts/events/event_types.ts";
import { EVENT_TYPES } from "../../../scripts/events/templates.ts";

const CREATED = 1_800_000_000;

function textOf(type: typeof EVENT_TYPES[number], provider: "a" | "b"): string {
  return JSON.stringify(
    buildEvent({ type }, { provider, created: CREATED }),
  );
}

Deno.test("buildEvent() is about the same subscription without being told which", () => {
  for (const provider of ["a", "b"] as const) {
    for (const type of EVENT_TYPES) {
      if (type === "payment_intent.payment_failed") continue;
      const text = textOf(type, provider);
      const found = new Set(text.match(/\bsub_\w+/g));
      assertEquals([...found], [`sub_local_${provider}`]);
      assertEquals([...new Set(text.match(/\bacc_\w+/g))], ["acc_local"]);
    }
  }
});

Deno.test("buildEvent() makes a new id for every event and dates it as told", () => {
  for (const type of EVENT_TYPES) {
    const [one, other] = [1, 2].map(() =>
      buildEvent({ type }, { provider: "a", created: CREATED })
    );
    assertNotEquals(one?.id, other?.id);
    assertEquals(one?.type, type);
    assertEquals(one?.created, CREATED);
  }
});

Deno.test("buildEvent() changes what can be seen on an update", () => {
  const [created, updated] = (["created", "updated"] as const).map((name) =>
    buildEvent({ type: `customer.subscription.${name}` }, {
      provider: "a",
      created: CREATED,
    }).data.object as SubscriptionObject
  );
  assertEquals(created?.status, "active");
  assertEquals(updated?.status, "past_due");
  assertNotEquals(
    created?.items.data[0].price.id,
    updated?.items.data[0].price.id,
  );
  assertNotEquals(created?.current_period_end, updated?.current_period_end);
});

Deno.test("buildEvent() takes what the command line says", () => {
  const event = buildEvent({
    type: "customer.subscription.updated",
    subscription: "sub_1",
    account: "acc_1",
    event: "evt_1",
    status: "unpaid",
    plan: "price_1",
    created: 1_700_000_000,
    apiVersion: "2026-10-28.endive",
  }, { provider: "b", created: CREATED });
  const object = event.data.object as SubscriptionObject;
  assertEquals(event.id, "evt_1");
  assertEquals(event.created, 1_700_000_000);
  assertEquals(event.api_version, "2026-10-28.endive");
  assertEquals(object.id, "sub_1");
  assertEquals(object.metadata.accountId, "acc_1");
  assertEquals(object.status, "unpaid");
  assertEquals(object.items.data[0].price.id, "price_1");
});

Deno.test("waitBeforeMs() makes a creation wait for the next second", () => {
  const wait = (nowMs: number) =>
    waitBeforeMs("customer.subscription.created", nowMs);
  assertEquals(wait(5_000), 1_000);
  assertEquals(wait(5_001), 999);
  assertEquals(wait(5_999), 1);
});

Deno.test("waitBeforeMs() is 0 for types that may share a second", () => {
  assertEquals(waitBeforeMs("customer.subscription.deleted", 5_001), 0);
  assertEquals(waitBeforeMs("customer.subscription.updated", 5_001), 0);
  assertEquals(waitBeforeMs("invoice.payment_failed", 5_001), 0);
});
