import { assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  batch,
  type BatchLimits,
} from "../../../supabase/functions/billing-webhook/queues/batch.ts";
import { isolateSlow } from "../../../supabase/functions/billing-webhook/queues/isolate_slow.ts";
import { retryWhileLocked } from "../../../supabase/functions/billing-webhook/queues/retry_while_locked.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const LIMITS = { calls: 1, maxTogether: 3, maxWaiting: 5, maxWaitMs: 4_000 };

/**
 * What becomes of items: `[1,2]` are sent together, `1` has its result, and
 * `2!overloaded` has failed.
 *
 * @param script What happens. A number is an item that is handed in. The oldest
 * call under way ends with the results (`ok`), with a failure of its first item
 * (`one`) or of all (`down`). `+1` is a millisecond that passes, and `timers`
 * notes how many there are: `1t`.
 */
async function batched(
  script: string,
  limits: BatchLimits = LIMITS,
): Promise<string> {
  using timers = useFakeTimers();
  const log: string[] = [];
  type Call = PromiseWithResolvers<(string | DeliveryError)[]>;
  const underWay: { items: string[]; call: Call }[] = [];
  const send = batch<string, string>((items) => {
    log.push(`[${items}]`);
    const call: Call = Promise.withResolvers();
    underWay.push({ items, call });
    return call.promise;
  }, limits);

  const unknown = new DeliveryError("subscription_unknown", "No.");
  const end = (how: (call: Call, items: string[]) => void) => () => {
    const { call, items } = underWay.shift()!;
    how(call, items);
  };
  const down = new DeliveryError("database_unavailable", "No.");
  const steps: Record<string, () => void> = {
    ok: end((call, items) => call.resolve(items)),
    one: end((call, items) => call.resolve([unknown, ...items.slice(1)])),
    down: end((call) => call.reject(down)),
    timers: () => log.push(`${timers.pending()}t`),
  };

  for (const step of script.split(" ")) {
    if (step.startsWith("+")) {
      log.push(step);
      await timers.pass(Number(step));
    } else if (steps[step]) {
      steps[step]();
    } else {
      send(step).catch(({ code }) => `${step}!${code.split("_").pop()}`)
        .then((result) => log.push(result));
    }
    await settle();
  }
  return log.join(" ");
}

const AT_ONCE = { ...LIMITS, maxTogether: 50 };
const ALONE = { calls: 2, maxTogether: 1, maxWaiting: 3, maxWaitMs: 5_000 };
const HISTORIES: [script: string, becomes: string, limits?: BatchLimits][] = [
  [
    // Half of five and one; of three and three; of three and two; after a pause.
    "1 2 3 4 5 ok 6 ok 7 8 9 ok ok 10 ok timers",
    "[1] [2,3,4] 1 [5,6] 2 3 4 [7,8,9] 5 6 7 8 9 [10] 10 0t",
    AT_ONCE,
  ],
  ["0 1 2 3 4 5 6 ok ok ok", "[0] 6!overloaded [1,2,3] 0 [4,5] 1 2 3 4 5"],
  [
    "1 2 3 4 5 ok one down 6 7 8 down down 9 ok",
    "[1] [2,3,4] 1 [5] 2!unknown 3 4 5!unavailable [6] [7,8] 6!unavailable 7!unavailable 8!unavailable [9] 9",
  ],
  [
    // Each wait ends by itself, and there is room for as many as gave up.
    "1 2 +1000 3 4 timers +2999 +1 +999 5 6 7 8 +1 ok timers +3998 +1 timers",
    "[1] +1000 1t +2999 +1 2!overloaded +999 8!overloaded +1 3!overloaded 4!overloaded [5,6] 1 1t +3998 +1 7!overloaded 0t",
  ],
  [
    // Two calls at a time; the next one takes the place of one that has ended.
    "1 2 3 4 5 6 ok one +4999 7 +1 down ok ok 8 9 10 timers",
    "[1] [2] 6!overloaded [3] 1 [4] 2!unknown +4999 +1 5!overloaded [7] 3!unavailable 4 7 [8] [9] 1t",
    ALONE,
  ],
];
Deno.test("batch() sends at once, and batches what arrives meanwhile, within limits", async () => {
  for (const [script, becomes, limits] of HISTORIES) {
    assertEquals(await batched(script, limits), becomes, script);
  }
});

const locked = (times: number) => Array<ErrorCode>(times).fill("record_locked");

const EVENTS: {
  /** How its first calls fail, and how long each call takes. */
  failures: ErrorCode[];
  callMs?: number;
  result?: string;
  calls: number;
  pausesMs: number;
}[] = [
  { failures: [], result: "evt_1", calls: 1, pausesMs: 0 },
  { failures: locked(5), result: "evt_1", calls: 6, pausesMs: 775 },
  { failures: locked(20), calls: 6, pausesMs: 775 },
  // A call that waited itself is not made again after a second.
  { failures: locked(20), callMs: 1_000, calls: 1, pausesMs: 0 },
  { failures: locked(20), callMs: 999, calls: 2, pausesMs: 25 },
  {
    failures: ["overloaded", "record_locked"],
    result: "overloaded",
    calls: 1,
    pausesMs: 0,
  },
];
Deno.test("retryWhileLocked() tries a locked event for about a second", async () => {
  for (const { failures, callMs = 0, ...outcome } of EVENTS) {
    using timers = useFakeTimers();
    let calls = 0;
    const apply = retryWhileLocked(async (item: string) => {
      const code = failures[calls++];
      if (callMs > 0) await new Promise((end) => setTimeout(end, callMs));
      if (code !== undefined) throw new DeliveryError(code, "Failed.");
      return item;
    });

    const ended = apply("evt_1").catch(({ code }: DeliveryError) => code)
      .then((result) => {
        const pausesMs = performance.now() - calls * callMs;
        return { result, calls, pausesMs };
      });
    await settle();
    await timers.pass(60_000);
    assertEquals<unknown>(await ended, { result: "record_locked", ...outcome });
  }
});

Deno.test("isolateSlow() sends alone only what was in a slow call", async () => {
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
    const expected = item.endsWith("ok") ? item : "database_unavailable";
    assertEquals(await apply(item).catch(({ code }) => code), expected);
  }

  assertEquals(
    log.join(", "),
    "together 1 down, together 1 ok, together 2 slow, alone 2 slow, alone 2 ok, together 2 ok, together 3 ok",
  );
});
