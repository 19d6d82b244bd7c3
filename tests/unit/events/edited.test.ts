import { assertEquals, assertThrows } from "@std/assert";
import { edited } from "../../../scripts/events/edited.ts";

Deno.test("edited() sets and removes fields of a copy", () => {
  const event = {
    id: "evt_1",
    data: { object: { items: [{ n: 1 }, { n: 2 }] } },
  };
  const copy = edited(event, {
    "data.object.items.1.n": null,
    "data.object.extra": "x",
    "id": undefined,
  });
  assertEquals<unknown>(copy, {
    data: { object: { items: [{ n: 1 }, { n: null }], extra: "x" } },
  });
  assertEquals(event, {
    id: "evt_1",
    data: { object: { items: [{ n: 1 }, { n: 2 }] } },
  });
});

Deno.test("edited() refuses a path that leads nowhere", () => {
  assertThrows(
    () => edited({ data: {} }, { "data.object.id": 1 }),
    TypeError,
    'Cannot edit "data.object.id": there is no "data.object".',
  );
});
