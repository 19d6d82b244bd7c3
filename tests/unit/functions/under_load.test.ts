/**
 * What a receiver under load does together instead of one by one: calls of the
 * database, calls of the worker, and log lines.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  awaitLocks,
  gather,
} from "../../../supabase/functions/billing-webhook/gather.ts";
import { throttleInfo } from "../../../supabase/functions/billing-webhook/throttle_info.ts";
import { workerWaker } from "../../../supabase/functions/billing-webhook/wake_worker.ts";
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
  for (let i = 0; i < 4; i++) await answer();
  assertEquals(sent, [[0], [1, 2, 3], [4, 5]]);
  assertEquals(await Promise.all(results), [..."012345"]);
});

Deno.test("gather() fails one item alone, or all of a call that fails, and goes on", async () => {
  const { calls, handIn, answer } = gathered();
  const work = [1, 2, 3, 4, 5].map((item) =>
    handIn(item).catch(({ code }: DeliveryError) => code)
  );
  await answer();
  await answer(new DeliveryError("subscription_unknown", "No."), "3", "4");
  calls.at(-1)!.reject(new DeliveryError("deployment_fault", "No."));
  work.push(...[6, 7, 8].map((item) => codeOf(handIn(item))));
  await settle();
  calls.at(-1)!.reject(new DeliveryError("database_unavailable", "Down."));
  await settle();
  assertEquals(await Promise.all(work.slice(0, 7)), [
    ...["1", "subscription_unknown", "3", "4", "deployment_fault"],
    ...["database_unavailable", "database_unavailable"],
  ]);
  calls.at(-1)!.reject(new DeliveryError("database_unavailable", "Down."));
  await settle();
  const next = handIn(9);
  await answer();
  assertEquals(await next, "9");
});

Deno.test("gather() rejects each item when its own wait ends, and never sends it", async () => {
  using timers = useFakeTimers();
  const { sent, handIn, answer } = gathered();
  const over: string[] = [];
  const wait = (item: number) =>
    handIn(item).catch(({ code }) => `${item} ${code}`)
      .then((text) => over.push(text));
  [1, 2].map(wait);
  await timers.pass(1_000);
  [3, 4].map(wait);
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
});

const locked = (times: number) => Array<ErrorCode>(times).fill("record_locked");
/**
 * The failures that an event meets first, and how long each call takes; then
 * the result, the calls, and the pauses in all.
 */
const LOCKS: [ErrorCode[], number, string, number, number][] = [
  [[], 0, "evt_1", 1, 0],
  [locked(5), 0, "evt_1", 6, 775],
  [locked(20), 0, "record_locked", 6, 775],
  // A call that waited itself is not made again after a second.
  [locked(20), 1_000, "record_locked", 1, 0],
  [locked(20), 999, "record_locked", 2, 25],
  [["overloaded", "record_locked"], 0, "overloaded", 1, 0],
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

/** A worker that replies when it is told to, and the waker that calls it. */
function heldWorker() {
  const requests: Request[] = [];
  const replies: PromiseWithResolvers<Response>[] = [];
  const lines: unknown[][] = [];
  const config = { supabaseUrl: "http://a.test", secretKey: "sb_secret_unit" };
  const wake = workerWaker(config, {
    fetch: (input, init) => {
      assert(init?.signal, "The call has no time limit");
      requests.push(new Request(input, { ...init, signal: null }));
      replies.push(Promise.withResolvers());
      return replies.at(-1)!.promise;
    },
    log: (...line) => lines.push(line),
  });
  /** Ends the call under way. */
  async function reply(status: number | Error) {
    const { resolve, reject } = replies.at(-1)!;
    if (typeof status !== "number") reject(status);
    else resolve(new Response("{}", { status }));
    await settle();
  }
  return { wake, requests, lines, reply };
}

Deno.test("workerWaker() calls the worker after the reply, once for all wakes", async () => {
  using timers = useFakeTimers();
  const { wake, requests, lines, reply } = heldWorker();
  const kept: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>) => kept.push(work);
  Object.assign(globalThis, { EdgeRuntime: { waitUntil } });
  for (let i = 0; i < 9; i++) assertEquals(wake("notifications"), undefined);
  await settle();
  assertEquals(requests.length, 0, "the reply to the provider goes first");
  await timers.pass(0);
  const [{ method, url, headers }] = requests as [Request];
  assertEquals([method, headers.get("apikey")], ["POST", "sb_secret_unit"]);
  assertEquals(
    url,
    "http://a.test/functions/v1/billing-worker?queue=notifications",
  );
  for (let i = 0; i < 9; i++) wake("notifications");
  await timers.pass(0);
  assertEquals(requests.length, 1, "one call at a time");
  await reply(200);
  assertEquals(requests.length, 2, "one more for the wakes meanwhile");
  await reply(200);
  assertEquals([requests.length, await kept[0], lines], [2, undefined, []]);
  // Elsewhere the process stays alive by itself. A call that fails is logged.
  Reflect.deleteProperty(globalThis, "EdgeRuntime");
  const cases: [how: number | Error, error: string][] = [
    [401, "the worker answered 401"],
    [new TypeError("connection refused"), "connection refused"],
  ];
  for (const [how, error] of cases) {
    wake("notifications");
    await timers.pass(0);
    wake("notifications");
    await reply(how);
    const message = "worker not woken: its schedule will do that";
    assertEquals(lines.splice(0), [["warn", message, { error }]]);
    await reply(200);
  }
  assertEquals([requests.length, kept.length], [6, 1]);
});

/** What is logged, then the time that passes, then what is written by then. */
const STEPS: [
  maxLines: number,
  ...steps: [logged: object[], ms: number, written: object[]][],
][] = [
  [
    1,
    [[{ n: 1 }], 0, [{ n: 1 }]],
    // The rest is summed up at the end of the interval.
    [[{ outcomes: { a: 2 } }, { n: 3, outcomes: { b: 1, a: 3 } }], 999, []],
    [[], 1, [{ n: 3, outcomes: { a: 5, b: 1 }, lines: 2 }]],
    // The sum counts as a line of the next interval.
    [[{ n: 4 }], 1_000, [{ n: 4, lines: 1 }]],
    // After an idle interval a line passes at once, and nothing follows.
    [[], 1_000, []],
    [[{ n: 5 }], 0, [{ n: 5 }]],
    [[], 9_000, []],
    [[{ n: 6 }], 0, [{ n: 6 }]],
  ],
  [
    3,
    [[{ n: 1 }, { n: 2 }, { n: 3 }], 0, [{ n: 1 }, { n: 2 }, { n: 3 }]],
    [[{ n: 4 }, { outcomes: null }], 1_000, [{ outcomes: null, lines: 2 }]],
    [[{ n: 6 }, { n: 7 }, { n: 8 }], 0, [{ n: 6 }, { n: 7 }]],
  ],
];
Deno.test("throttleInfo() sums up the rest of each interval, apart from other messages and levels", async () => {
  for (const [maxLines, ...steps] of STEPS) {
    using timers = useFakeTimers();
    const lines: unknown[][] = [];
    const limits = { intervalMs: 1_000, maxLines };
    const log = throttleInfo((...line) => lines.push(line), limits);
    for (const [logged, ms, expected] of steps) {
      for (const fields of logged) log("info", "applied", { ...fields });
      // Written at once, whatever is left out of the others.
      log("warn", "applied");
      log("info", `${ms} ${logged.length}`);
      assertEquals(lines.splice(-2).map(([level]) => level), ["warn", "info"]);
      await timers.pass(ms);
      const written = expected.map((fields) => ["info", "applied", fields]);
      assertEquals(lines.splice(0), written, JSON.stringify(logged));
    }
  }
});
