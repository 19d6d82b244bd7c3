import { assertEquals } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { isolateSlow } from "../../../supabase/functions/billing-webhook/queues/isolate_slow.ts";

Deno.test("isolateSlow() sends alone what was in a slow call, and nothing else", async () => {
  const log: string[] = [];
  const send = (how: string) => (item: string) => {
    log.push(`${how} ${item}`);
    const cause = item.includes("slow") ? new DOMException() : undefined;
    return item.endsWith("ok") ? Promise.resolve(item) : Promise.reject(
      new DeliveryError("database_unavailable", "", { cause }),
    );
  };
  const apply = isolateSlow({
    together: send("together"),
    alone: send("alone"),
    keyOf: (item) => item[0]!,
  });

  const items = ["1 down", "1 ok", "2 slow", "2 slow", "2 ok", "2 ok", "3 ok"];
  for (const item of items) {
    assertEquals(await apply(item).catch(() => item), item);
  }

  assertEquals(
    log.join(", "),
    "together 1 down, together 1 ok, together 2 slow, alone 2 slow, alone 2 ok, together 2 ok, together 3 ok",
  );
});
