import { assertEquals, assertRejects } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { gather } from "../../../supabase/functions/billing-webhook/gather.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const LIMITS = { maxTogether: 3, maxWaiting: 5, maxWaitMs: 4_000 };

interface Call {
  readonly items: number[];
  readonly answer: (results: readonly (string | DeliveryError)[]) => void;
  readonly fail: (error: Error) => void;
}

/** Gathers numbers into calls that the test answers by hand. */
function gathered(limits = LIMITS) {
  const calls: Call[] = [];
  const handIn = gather<number, string>(
    (items) =>
      new Promise((answer, fail) => calls.push({ items, answer, fail })),
    limits,
  );
  return { calls, handIn };
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

Deno.test("gather() leaves half of them to the next call, so that two take turns", async () => {
  const { calls, handIn } = gathered({ ...LIMITS, maxTogether: 50 });
  [1, 2, 3, 4, 5].map(handIn);
  calls[0]?.answer(["1"]);
  await settle();
  assertEquals(calls[1]?.items, [2, 3, 4], "half of five");
  handIn(6);
  calls[1]?.answer(["2", "3", "4"]);
  await settle();
  assertEquals(calls[2]?.items, [5, 6], "at most half of five");
  [7, 8, 9].map(handIn);
  calls[2]?.answer(["5", "6"]);
  await settle();
  assertEquals(calls[3]?.items, [7, 8, 9], "half of five, and nobody waits");
});

Deno.test("gather() fails one item alone", async () => {
  const { calls, handIn } = gathered();
  const results = [1, 2, 3].map(handIn);
  calls[0]?.answer(["a"]);
  await settle();
  const failure = new DeliveryError("subscription_unknown", "No.");
  calls[1]?.answer([failure, "c"]);
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

Deno.test("gather() rejects what waits too long, and never sends it", async () => {
  using timers = useFakeTimers();
  const { calls, handIn } = gathered();
  const sent = handIn(1);
  const early = handIn(2);
  await timers.pass(LIMITS.maxWaitMs / 2);
  const late = handIn(3);
  await timers.pass(LIMITS.maxWaitMs / 2 - 1);
  assertEquals(timers.pending(), 1, "one timer for all that wait");
  await timers.pass(1);
  const { code } = await assertRejects(() => early, DeliveryError);
  assertEquals(code, "overloaded");
  calls[0]?.answer(["a"]);
  assertEquals(await sent, "a");
  await settle();
  assertEquals(calls.map(({ items }) => items), [[1], [3]]);
  assertEquals(timers.pending(), 0, "what is sent waits no longer");
  await timers.pass(LIMITS.maxWaitMs);
  calls[1]?.answer(["c"]);
  assertEquals(await late, "c", "a call may take its time");
});

Deno.test("gather() rejects each item when its own wait ends", async () => {
  using timers = useFakeTimers();
  const { handIn } = gathered();
  const rejected: number[] = [];
  const wait = (item: number) =>
    handIn(item).catch(() => {
      rejected.push(item);
    });
  wait(1);
  wait(2);
  await timers.pass(1_000);
  wait(3);
  await timers.pass(LIMITS.maxWaitMs - 1_000);
  assertEquals(rejected, [2], "the call under way may take its time");
  await timers.pass(999);
  assertEquals(rejected, [2]);
  await timers.pass(1);
  assertEquals(rejected, [2, 3]);
  assertEquals(timers.pending(), 0);
});

Deno.test("gather() keeps no event waiting for calls that hang, one after another", async () => {
  const CALL_MS = 3_000;
  using timers = useFakeTimers();
  const fault = new DeliveryError("database_unavailable", "No answer.");
  let calls = 0;
  const handIn = gather<number, string>(
    () =>
      new Promise((_, reject) => {
        calls++;
        setTimeout(() => reject(fault), CALL_MS);
      }),
    { maxTogether: 50, maxWaiting: 1_000, maxWaitMs: 4_000 },
  );
  const open = new Set(Array(1_000).keys());
  const codes: Record<string, number> = {};
  for (const number of [...open]) {
    handIn(number).catch(({ code }: DeliveryError) => {
      open.delete(number);
      codes[code] = (codes[code] ?? 0) + 1;
    });
  }
  await timers.pass(4_000 + CALL_MS);
  assertEquals(open.size, 0, "somebody waits still");
  assertEquals(codes, { database_unavailable: 51, overloaded: 949 });
  assertEquals(calls, 2);
});

Deno.test("gather() has room again for as many as gave up", async () => {
  using timers = useFakeTimers();
  const { calls, handIn } = gathered();
  handIn(0);
  const given = [1, 2, 3, 4, 5].map((n) => assertRejects(() => handIn(n)));
  await timers.pass(LIMITS.maxWaitMs);
  await Promise.all(given);
  handIn(6);
  calls[0]?.answer(["0"]);
  await settle();
  assertEquals(calls[1]?.items, [6]);
});
