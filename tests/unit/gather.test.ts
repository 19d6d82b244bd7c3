import { assertEquals, assertRejects } from "@std/assert";
import { DeliveryError } from "../../supabase/functions/_shared/errors.ts";
import { gather } from "../../supabase/functions/billing-webhook/gather.ts";

const LIMITS = { maxTogether: 3, maxWaiting: 5 };

type Call = {
  items: number[];
  answer: (results: readonly (string | DeliveryError)[]) => void;
  fail: (error: Error) => void;
};

/** Gathers numbers into calls that the test answers by hand. */
function gathered() {
  const calls: Call[] = [];
  const handIn = gather<number, string>(
    (items) =>
      new Promise((answer, fail) => calls.push({ items, answer, fail })),
    LIMITS,
  );
  return { calls, handIn };
}

/** Lets everything run that does not wait for a call. */
async function settle() {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

Deno.test("gather() sends at once while no call is under way", () => {
  const { calls, handIn } = gathered();
  handIn(1);
  assertEquals(calls.map(({ items }) => items), [[1]]);
});

Deno.test("gather() sends what came meanwhile together, in order, up to the limit", async () => {
  const { calls, handIn } = gathered();
  const results = [1, 2, 3, 4, 5].map(handIn);
  assertEquals(calls.length, 1, "one call is under way");
  calls[0]?.answer(["a"]);
  await settle();
  calls[1]?.answer(["b", "c", "d"]);
  await settle();
  calls[2]?.answer(["e"]);
  assertEquals(await Promise.all(results), ["a", "b", "c", "d", "e"]);
  assertEquals(calls.map(({ items }) => items), [[1], [2, 3, 4], [5]]);
});

Deno.test("gather() fails one item alone", async () => {
  const { calls, handIn } = gathered();
  const first = handIn(0);
  const results = [1, 2, 3].map(handIn);
  calls[0]?.answer(["first"]);
  await first;
  await settle();
  const failure = new DeliveryError("subscription_unknown", "No.");
  calls[1]?.answer(["a", failure, "c"]);
  assertEquals(
    await Promise.allSettled(results),
    [
      { status: "fulfilled", value: "a" },
      { status: "rejected", reason: failure },
      { status: "fulfilled", value: "c" },
    ],
  );
});

Deno.test("gather() fails all of a call that fails, and goes on with the next", async () => {
  const { calls, handIn } = gathered();
  const results = [1, 2].map(handIn);
  const fault = new DeliveryError("database_unavailable", "Down.");
  calls[0]?.fail(fault);
  assertEquals(
    await assertRejects(() => results[0] as Promise<string>),
    fault,
  );
  await settle();
  calls[1]?.answer(["b"]);
  assertEquals(await results[1], "b");
  handIn(3);
  await settle();
  assertEquals(calls[2]?.items, [3]);
});

Deno.test("gather() refuses what is more than may wait, and takes more when there is room", async () => {
  const { calls, handIn } = gathered();
  const results = [0, 1, 2, 3, 4, 5].map(handIn);
  const refused = await assertRejects(() => handIn(6), DeliveryError);
  assertEquals(refused.code, "overloaded");
  calls[0]?.answer(["0"]);
  await results[0];
  await settle();
  handIn(7);
  assertEquals(calls[1]?.items, [1, 2, 3]);
  calls[1]?.answer(["1", "2", "3"]);
  await settle();
  assertEquals(calls[2]?.items, [4, 5, 7]);
});
