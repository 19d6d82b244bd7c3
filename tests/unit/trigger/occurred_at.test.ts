import { assertEquals } from "@std/assert";
import { millisecondsToWait } from "../../../scripts/trigger/occurred_at.ts";

Deno.test("millisecondsToWait() lets a creation begin the next second", () => {
  const wait = (now: number) =>
    millisecondsToWait("customer.subscription.created", now);
  assertEquals(wait(5_000), 1_000);
  assertEquals(wait(5_001), 999);
  assertEquals(wait(5_999), 1);
});

Deno.test("millisecondsToWait() is 0 for what may share its second", () => {
  assertEquals(millisecondsToWait("customer.subscription.deleted", 5_001), 0);
  assertEquals(millisecondsToWait("customer.subscription.updated", 5_001), 0);
  assertEquals(millisecondsToWait("invoice.payment_failed", 5_001), 0);
});
