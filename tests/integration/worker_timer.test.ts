/**
 * The local stack's timer, in real time.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { startWorkerTimer } from "../../scripts/local_stack/worker_timer.ts";

const SECOND_MS = 1000;

Deno.test("startWorkerTimer() wakes the worker again and again, whatever it answers, until it is disposed of", async () => {
  const keys: (string | null)[] = [];
  let underWay = 0;
  let most = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      keys.push(`${request.method} ${request.headers.get("apikey")}`);
      most = Math.max(most, ++underWay);
      // The next wake would come meanwhile.
      await new Promise((resolve) => setTimeout(resolve, 7 * SECOND_MS));
      underWay--;
      return new Response(null, { status: 503 });
    },
  );
  try {
    const begin = performance.now();
    {
      using _timer = startWorkerTimer(
        `http://127.0.0.1:${server.addr.port}/`,
        { secretKey: "sb_secret_unit" },
      );
      await waitUntil(() => keys.length === 2, { timeoutMs: 20 * SECOND_MS });
    }
    // At most ten seconds apart, as the local stack promises.
    assert(performance.now() - begin < 20 * SECOND_MS);
    assertEquals(most, 1, "It was woken while it was at work");
    assertEquals(keys, Array(2).fill("POST sb_secret_unit"));
  } finally {
    await server.shutdown();
  }
});
