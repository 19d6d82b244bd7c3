import { assert, assertEquals, assertMatch } from "@std/assert";
import { stripeId } from "../../../bench/requests.ts";

Deno.test("an ID begins with its time, as published IDs of Stripe do", () => {
  // From Stripe's API reference: IDs, and the times of what they are of.
  for (
    const [published, seconds] of [
      ["sub_1MowQVLkdIwHu7ixeRlqHVzs", 1_679_609_767],
      ["pi_3MtwBwLkdIwHu7ix28a3tqPa", 1_680_800_504],
    ] as const
  ) {
    const [prefix = "", id = ""] = published.split("_");
    assertEquals(
      stripeId(prefix, seconds).slice(0, -18),
      `${prefix}_1${id.slice(1, 6)}`,
    );
  }
});

Deno.test("IDs sort by their seconds, in byte order, and have Stripe's form", () => {
  const ids = Array.from(
    { length: 10_000 },
    (_, i) => stripeId("evt", 1_758_900_000 + i),
  );
  assertEquals(ids, ids.toSorted());
  for (const id of ids) assertMatch(id, /^evt_1[0-9A-Za-z]{23}$/);
});

Deno.test("IDs of one second differ", () => {
  const ids = Array.from(
    { length: 10_000 },
    () => stripeId("evt", 1_758_900_000),
  );
  assert(new Set(ids).size === ids.length);
});
