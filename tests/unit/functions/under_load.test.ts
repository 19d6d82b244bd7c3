/**
 * What a receiver under load does together instead of one by one: calls of the
 * database, calls of the worker, and log lines.
 */
import { assert, assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { batch } from "../../../supabase/functions/billing-webhook/queues/batch.ts";
import { isolateSlow } from "../../../supabase/functions/billing-webhook/queues/isolate_slow.ts";
import { limitCalls } from "../../../supabase/functions/billing-webhook/queues/limit_calls.ts";
import { retryWhileLocked } from "../../../supabase/functions/billing-webhook/queues/retry_while_locked.ts";
import { throttleInfo } from "../../../supabase/functions/billing-webhook/throttle_info.ts";
import { workerWaker } from "../../../supabase/functions/billing-webhook/wake_worker.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const LIMITS = { maxTogether: 3, maxWaiting: 5, maxWaitMs: 4_000 };

/**
 * What becomes of items: `[1,2]` are sent together, `1` has its result, and
 * `2!overloaded` has failed.
 *
 * @param script What happens. A number is an item that is handed in. The call
 * under way ends with the results (`ok`), with a failure of its first item
 * (`one`) or of all (`down`). `+1` is a millisecond that passes, and `timers`
 * notes how many there are: `1t`.
 */
async function gathered(script: string, limits = LIMITS): Promise<string> {
  using timers = useFakeTimers();
  const log: string[] = [];
  let items: string[] = [];
  let call = Promise.withResolvers<(string | DeliveryError)[]>();
  const handIn = batch<string, string>((sent) => {
    log.push(`[${sent}]`);
    items = sent;
    call = Promise.withResolvers();
    return call.promise;
  }, limits);
  const unknown = new DeliveryError("subscription_unknown", "No.");
  const steps: Record<string, () => void> = {
    ok: () => call.resolve(items),
    one: () => call.resolve([unknown, ...items.slice(1)]),
    down: () => call.reject(new DeliveryError("database_unavailable", "No.")),
    timers: () => log.push(`${timers.pending()}t`),
  };
  for (const step of script.split(" ")) {
    if (step.startsWith("+")) {
      log.push(step);
      await timers.pass(Number(step));
    } else if (steps[step]) steps[step]();
    else {
      handIn(step).catch(({ code }) => `${step}!${code.split("_").pop()}`)
        .then((result) => log.push(result));
    }
    await settle();
  }
  return log.join(" ");
}

const AT_ONCE = { ...LIMITS, maxTogether: 50 };
const HISTORIES: [script: string, becomes: string, limits?: typeof LIMITS][] = [
  [
    // Half of five and one; of three and three; of three and two; after a pause.
    "1 2 3 4 5 ok 6 ok 7 8 9 ok ok 10 ok timers",
    "[1] [2,3,4] 1 [5,6] 2 3 4 [7,8,9] 5 6 7 8 9 [10] 10 0t",
    AT_ONCE,
  ],
  ["0 1 2 3 4 5 6 ok ok ok ok", "[0] 6!overloaded [1,2,3] 0 [4,5] 1 2 3 4 5"],
  [
    "1 2 3 4 5 ok one down 6 7 8 down down 9 ok",
    "[1] [2,3,4] 1 [5] 2!unknown 3 4 5!unavailable [6] [7,8] 6!unavailable 7!unavailable 8!unavailable [9] 9",
  ],
  [
    // Each wait ends by itself, and there is room for as many as gave up.
    "1 2 +1000 3 4 timers +2999 +1 +999 5 6 7 8 +1 ok timers +3998 +1 timers",
    "[1] +1000 1t +2999 +1 2!overloaded +999 8!overloaded +1 3!overloaded 4!overloaded [5,6] 1 1t +3998 +1 7!overloaded 0t",
  ],
];
Deno.test("batch() sends at once, and what arrives meanwhile together, half of it at a time, within its limits", async () => {
  for (const [script, becomes, limits] of HISTORIES) {
    assertEquals(await gathered(script, limits), becomes, script);
  }
});

Deno.test("limitCalls() has so many calls under way, and the others wait for their turn, within its limits", async () => {
  using timers = useFakeTimers();
  type Call = PromiseWithResolvers<string | DeliveryError>;
  const calls = new Map<string, Call>();
  const log: string[] = [];
  const handIn = limitCalls<string, string>((item) => {
    log.push(`[${item}]`);
    calls.set(item, Promise.withResolvers());
    return calls.get(item)!.promise;
  }, { calls: 2, maxWaiting: 3, maxWaitMs: 5_000 });
  const hand = async (...items: string[]) => {
    for (const item of items) {
      handIn(item).catch(({ code }) => `!${code}`)
        .then((result) => log.push(`${item}${result}`));
    }
    await settle();
  };
  const end = async (item: string, result: string | DeliveryError) => {
    calls.get(item)!.resolve(result);
    await settle();
  };
  await hand("1", "2", "3", "4", "5", "6");
  await end("2", "ok");
  await end("1", new DeliveryError("record_locked", "No."));
  await timers.pass(4_999);
  await hand("7");
  await timers.pass(1);
  calls.get("3")!.reject(new DeliveryError("database_unavailable", "No."));
  await settle();
  await end("4", "ok");
  await end("7", "ok");
  await hand("8", "9", "10");
  assertEquals(
    log.join(" "),
    "[1] [2] 6!overloaded [3] 2ok [4] 1!record_locked 5!overloaded [7] 3!database_unavailable 4ok 7ok [8] [9]",
  );
  assertEquals(timers.pending(), 1);
});

Deno.test("isolateSlow() sends alone what was in a call that took too long, and nothing else", async () => {
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
Deno.test("retryWhileLocked() tries an event again for about a second while it is locked", async () => {
  for (const [failures, callMs, ...expected] of LOCKS) {
    using timers = useFakeTimers();
    let calls = 0;
    const ended = retryWhileLocked(async (item: string) => {
      const code = failures[calls++];
      if (callMs > 0) await new Promise((end) => setTimeout(end, callMs));
      if (code !== undefined) throw new DeliveryError(code, "Failed.");
      return item;
    })("evt_1").catch(({ code }: DeliveryError) => code).then((result) => {
      return [result, calls, performance.now() - calls * callMs];
    });
    await settle();
    await timers.pass(60_000);
    assertEquals(await ended, expected);
  }
});

/**
 * What a waker does: it calls the worker, and logs a call that fails.
 *
 * @param script What happens: `wake`, or `retry` for the other queue, then `reply`,
 * after which it may begin. A status, or `down`, is how the call under way ends.
 */
async function woken(script: string): Promise<string> {
  using timers = useFakeTimers();
  const log: string[] = [];
  let worker = Promise.withResolvers<Response>();
  const config = { supabaseUrl: "http://a.test", secretKey: "sb_secret_unit" };
  const wake = workerWaker(config, {
    fetch: (input, init) => {
      assert(init?.signal, "The call has no time limit");
      const request = new Request(input, { ...init, signal: null });
      const [url, queue] = request.url.split("?queue=");
      assertEquals(url, "http://a.test/functions/v1/billing-worker");
      log.push(`${request.method} ${queue} ${request.headers.get("apikey")}`);
      worker = Promise.withResolvers();
      return worker.promise;
    },
    log: (...line) => log.push(JSON.stringify(line)),
  });
  for (const step of script.split(" ")) {
    if (step === "wake") assertEquals(wake("notifications"), undefined);
    else if (step === "retry") wake("retries");
    else if (step === "reply") await timers.pass(0);
    else if (step === "down") worker.reject(new TypeError("refused"));
    else worker.resolve(new Response("{}", { status: Number(step) }));
    await settle();
    log.push(step);
  }
  return log.join(" ");
}

const CALL = "POST notifications sb_secret_unit";
const failing = (error: string) =>
  `["warn","worker not woken: its schedule will do that",{"error":"${error}"}]`;
const WAKES: [script: string, does: string][] = [
  // One call at a time, and one more for the wakes meanwhile.
  [
    "wake wake reply wake wake reply 200 200 reply",
    `wake wake ${CALL} reply wake wake reply ${CALL} 200 200 reply`,
  ],
  [
    "wake reply wake 401 200 wake reply wake down 200",
    `wake ${CALL} reply wake ${
      failing("the worker answered 401")
    } ${CALL} 401 200 wake ${CALL} reply wake ${
      failing("refused")
    } ${CALL} down 200`,
  ],
  // The other queue waits for none of them.
  [
    "wake reply retry reply",
    `wake ${CALL} reply retry POST retries sb_secret_unit reply`,
  ],
];
Deno.test("workerWaker() calls the worker after the reply, once for all wakes", async () => {
  const kept: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>) => kept.push(work);
  Object.assign(globalThis, { EdgeRuntime: { waitUntil } });
  for (const [script, does] of WAKES) {
    assertEquals(await woken(script), does);
    // Elsewhere the process stays alive by itself.
    Reflect.deleteProperty(globalThis, "EdgeRuntime");
  }
  assertEquals(await Promise.all(kept), [undefined]);
});

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
