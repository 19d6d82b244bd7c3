import { assertEquals } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { retryWhileLocked } from "../../../supabase/functions/billing-webhook/queues/retry_while_locked.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

const locked = (times: number) => Array<ErrorCode>(times).fill("record_locked");

const EVENTS: {
  /** How its first calls fail, and how long each call takes. */
  failures: ErrorCode[];
  callMs?: number;
  result?: string;
  calls: number;
  /** All pauses together. */
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
