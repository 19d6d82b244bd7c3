import { assertEquals } from "@std/assert";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { startWorkerTimer } from "../../../scripts/local_stack/worker_timer.ts";
import { useFakeTimers } from "../../support/fake_timers.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const PERIOD_MS = 5_000;

Deno.test("startWorkerTimer() wakes the worker again and again, whatever it answers, until it is disposed of", async () => {
  const calls: string[] = [];
  let answer = Promise.withResolvers<void>();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      calls.push(`${request.method} ${request.headers.get("apikey")}`);
      await answer.promise;
      return new Response(null, { status: 503 });
    },
  );
  const called = (times: number) =>
    waitUntil(() => calls.length === times, { timeoutMs: HANG_LIMIT_MS });
  using timers = useFakeTimers();
  try {
    {
      using _timer = startWorkerTimer(
        `http://127.0.0.1:${server.addr.port}/`,
        { secretKey: "sb_secret_unit" },
      );
      await timers.pass(PERIOD_MS - 1);
      assertEquals(calls, []);
      await timers.pass(1);
      await called(1);
      // It is still at work.
      await timers.pass(10 * PERIOD_MS);
      answer.resolve();
      answer = Promise.withResolvers<void>();
      await waitUntil(async () => {
        await timers.pass(PERIOD_MS);
        return calls.length > 1;
      }, { timeoutMs: HANG_LIMIT_MS });
      answer.resolve();
    }
    assertEquals(calls, Array(2).fill("POST sb_secret_unit"));
    assertEquals(timers.pending(), 0);
  } finally {
    answer.resolve();
    await server.shutdown();
  }
});
