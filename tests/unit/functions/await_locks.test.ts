import { assertEquals, assertRejects } from "@std/assert";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { awaitLocks } from "../../../supabase/functions/billing-webhook/gather.ts";

/** Applies one item, which meets these failures first; each call takes a while. */
function apply(failures: ErrorCode[], { callMs = 0 } = {}) {
  let calls = 0;
  let timeMs = 0;
  const pauses: number[] = [];
  const result = awaitLocks((item: string) => {
    const code = failures[calls++];
    timeMs += callMs;
    return code === undefined
      ? Promise.resolve(`${item} applied`)
      : Promise.reject(new DeliveryError(code, "Failed."));
  }, {
    sleep: (ms) => {
      pauses.push(ms);
      timeMs += ms;
      return Promise.resolve();
    },
    clock: () => timeMs,
  })("evt_1");
  return { result, pauses, calls: () => calls };
}

Deno.test("awaitLocks() calls once for an event that is not locked", async () => {
  const { result, pauses, calls } = apply([]);
  assertEquals(await result, "evt_1 applied");
  assertEquals([calls(), pauses], [1, []]);
});

Deno.test("awaitLocks() tries an event again that is locked for a moment", async () => {
  const { result, pauses, calls } = apply(["record_locked", "record_locked"]);
  assertEquals(await result, "evt_1 applied");
  assertEquals([calls(), pauses], [3, [25, 50]]);
});

Deno.test("awaitLocks() gives up after less than a second", async () => {
  const { result, pauses } = apply(Array(20).fill("record_locked"));
  const error = await assertRejects(() => result, DeliveryError);
  assertEquals(error.code, "record_locked");
  assertEquals(pauses.reduce((sum, pause) => sum + pause), 775);
});

Deno.test("awaitLocks() hands on any other failure at once", async () => {
  const codes: ErrorCode[] = [
    "database_unavailable",
    "overloaded",
    "subscription_unknown",
  ];
  for (const code of codes) {
    const { result, calls } = apply([code]);
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals([error.code, calls()], [code, 1]);
  }
});

Deno.test("awaitLocks() does not make a call again that waited for a second itself", async () => {
  for (const [callMs, expected] of [[1_000, 1], [400, 3]] as const) {
    const failures = Array(20).fill("record_locked");
    const { result, calls } = apply(failures, { callMs });
    await assertRejects(() => result, DeliveryError);
    assertEquals(calls(), expected);
  }
});
