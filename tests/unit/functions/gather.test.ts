import { assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  awaitLocks,
  gather,
} from "../../../supabase/functions/billing-webhook/gather.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";
import { codeOf } from "./fixtures.ts";

const LIMITS = { maxTogether: 3, maxWaiting: 5, maxWaitMs: 4_000 };

/** Gathers numbers into calls that the test answers by hand. */
function gathered(limits = LIMITS) {
  const sent: number[][] = [];
  const calls: PromiseWithResolvers<(string | DeliveryError)[]>[] = [];
  const handIn = gather<number, string>((items) => {
    sent.push(items);
    calls.push(Promise.withResolvers());
    return calls.at(-1)!.promise;
  }, limits);
  /** Answers the newest call, with each item as text. */
  async function answer(...instead: (string | DeliveryError)[]) {
    const texts = instead.length > 0 ? instead : sent.at(-1)!.map(String);
    calls.at(-1)!.resolve(texts);
    await settle();
  }
  return { sent, calls, handIn, answer };
}

Deno.test("gather() sends at once, and what arrives meanwhile together, half of it at a time", async () => {
  using timers = useFakeTimers();
  const { sent, handIn, answer } = gathered({ ...LIMITS, maxTogether: 50 });
  const results = [1, 2, 3, 4, 5].map(handIn);
  assertEquals(sent, [[1]]);
  await answer();
  results.push(handIn(6));
  await answer();
  results.push(...[7, 8, 9].map(handIn));
  await answer();
  await answer();
  results.push(handIn(10));
  await answer();
  assertEquals(await Promise.all(results), [..."123456789", "10"]);
  assertEquals(timers.pending(), 0, "what is sent waits no longer");
  // Half of five and one; of three and three; of three and two; after a pause.
  assertEquals(sent, [[1], [2, 3, 4], [5, 6], [7, 8, 9], [10]]);
});

Deno.test("gather() sends no more together, and lets no more wait, than it may", async () => {
  const { sent, handIn, answer } = gathered();
  const results = [0, 1, 2, 3, 4, 5].map(handIn);
  assertEquals(await codeOf(handIn(6)), "overloaded");
  await answer();
  assertEquals(sent, [[0], [1, 2, 3]]);
  results.push(...[7, 8, 9].map(handIn));
  assertEquals(await codeOf(handIn(10)), "overloaded");
  await answer();
  await answer();
  assertEquals(sent.slice(2), [[4, 5, 7], [8, 9]]);
  await answer();
  assertEquals(await Promise.all(results), [..."012345789"]);
});

Deno.test("gather() fails one item alone, or all of a call that fails, and goes on", async () => {
  const { sent, calls, handIn, answer } = gathered();
  const results = [1, 2, 3, 4].map(handIn);
  await answer();
  const unknown = new DeliveryError("subscription_unknown", "No.");
  await answer(unknown, "3");
  await answer();
  assertEquals(await Promise.allSettled(results), [
    { status: "fulfilled", value: "1" },
    { status: "rejected", reason: unknown },
    { status: "fulfilled", value: "3" },
    { status: "fulfilled", value: "4" },
  ]);
  const failing = [5, 6].map((item) => codeOf(handIn(item)));
  const down = new DeliveryError("database_unavailable", "Down.");
  calls.at(-1)!.reject(down);
  await settle();
  calls.at(-1)!.reject(down);
  assertEquals(await Promise.all(failing), Array(2).fill(down.code));
  await settle();
  handIn(7);
  assertEquals(sent.at(-1), [7]);
});

Deno.test("gather() rejects each item when its own wait ends, and never sends it", async () => {
  using timers = useFakeTimers();
  const { sent, handIn, answer } = gathered();
  const over: string[] = [];
  const wait = (item: number) =>
    handIn(item).catch(({ code }) => `${item} ${code}`)
      .then((text) => over.push(text));
  wait(1);
  wait(2);
  await timers.pass(1_000);
  wait(3);
  wait(4);
  assertEquals(timers.pending(), 1, "one timer for all that wait");
  await timers.pass(2_999);
  assertEquals(over, []);
  await timers.pass(1);
  assertEquals(over, ["2 overloaded"]);
  await timers.pass(999);
  // There is room again for as many as gave up.
  [5, 6, 7].map(wait);
  assertEquals(await codeOf(handIn(8)), "overloaded");
  await timers.pass(1);
  assertEquals(over.splice(0), [2, 3, 4].map((item) => `${item} overloaded`));
  await answer();
  assertEquals([over.splice(0), sent], [["1"], [[1], [5, 6]]]);
  assertEquals(timers.pending(), 1, "for the last");
  await timers.pass(3_998);
  assertEquals(over, [], "a call may take its time");
  await timers.pass(1);
  assertEquals([over, timers.pending()], [["7 overloaded"], 0]);
  await answer();
  assertEquals([over, sent.length], [["7 overloaded", "5", "6"], 2]);
});

const locked = (times: number) => Array<ErrorCode>(times).fill("record_locked");
/**
 * The failures that an event meets first, and how long each call takes; then
 * the result, the calls, and the pauses in all.
 */
const LOCKS: [ErrorCode[], number, string, number, number][] = [
  [[], 0, "evt_1", 1, 0],
  [locked(2), 0, "evt_1", 3, 75],
  [locked(5), 0, "evt_1", 6, 775],
  [locked(20), 0, "record_locked", 6, 775],
  // A call that waited itself is not made again after a second.
  [locked(20), 1_000, "record_locked", 1, 0],
  [locked(20), 999, "record_locked", 2, 25],
  [["overloaded", "record_locked"], 0, "overloaded", 1, 0],
  [["subscription_unknown"], 0, "subscription_unknown", 1, 0],
];
Deno.test("awaitLocks() tries an event again for about a second while it is locked", async () => {
  for (const [failures, callMs, ...expected] of LOCKS) {
    let [calls, timeMs, pausedMs] = [0, 0, 0];
    const result = await awaitLocks((item: string) => {
      const code = failures[calls++];
      timeMs += callMs;
      return code === undefined
        ? Promise.resolve(item)
        : Promise.reject(new DeliveryError(code, "Failed."));
    }, {
      sleep: (ms) => {
        pausedMs += ms;
        return Promise.resolve(void (timeMs += ms));
      },
      clock: () => timeMs,
    })("evt_1").catch(({ code }: DeliveryError) => code);
    assertEquals([result, calls, pausedMs], expected);
  }
});
