import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { sentEvent } from "../../../scripts/trigger/sent_event.ts";

Deno.test("sentEvent() reads what the rows of an event are found by", async () => {
  const type = "customer.subscription.updated";
  const event = subscriptionEvent(type, { subscription: "sub_1" });
  const body = new TextEncoder().encode(JSON.stringify(event));
  assertEquals(await sentEvent(body, "b"), {
    provider: "b",
    id: event.id,
    type,
    subscription: "sub_1",
  });
});

Deno.test("sentEvent() finds a body without an ID by its hash, as the receiver files it", async () => {
  for (const text of ["", "null", "[]", '{"id": 1, "data": null}', "\xff{"]) {
    const body = Uint8Array.from(text, (one) => one.charCodeAt(0));
    const hash = createHash("sha256").update(body).digest("hex");
    assertEquals(await sentEvent(body, "a"), {
      provider: "a",
      id: `sha256:${hash}`,
      type: "",
      subscription: "",
    });
  }
});
