/**
 * What takes real time: the local stack's timer, and an endpoint that never
 * answers. They run beside each other.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { startWorkerTimer } from "../../scripts/local_stack/worker_timer.ts";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { outboxRow, oweNotifications, startWorker } from "../support/worker.ts";

const NOTHING = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};
const SECOND = 1000;

const sql = connect();
const held = Promise.withResolvers<void>();
const endpoint = startNotifiedEndpoint();
endpoint.answerWith(async () => {
  await held.promise;
  return new Response("OK");
});
const worker = await startWorker(endpoint.env);
Deno.test.afterAll(async () => {
  held.resolve();
  await worker[Symbol.asyncDispose]();
  await endpoint[Symbol.asyncDispose]();
  await sql.end();
});

// Begun here, so that its ten seconds pass while the timer is tested.
const [event] = await oweNotifications(sql);
const hanging = (async () => {
  const begin = performance.now();
  const counts = await worker.wake();
  return { counts, took: performance.now() - begin };
})();

Deno.test("startWorkerTimer() wakes the worker again and again, whatever it answers, until it is disposed of", async () => {
  const keys: (string | null)[] = [];
  let underWay = 0;
  let most = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      keys.push(`${request.method} ${request.headers.get("apikey")}`);
      most = Math.max(most, ++underWay);
      // The next wake would come in between.
      await new Promise((resolve) => setTimeout(resolve, 7 * SECOND));
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
      await waitUntil(() => keys.length === 2, { timeoutMs: 20 * SECOND });
    }
    // At most ten seconds apart, as the local stack promises.
    assert(performance.now() - begin < 20 * SECOND);
    assertEquals(most, 1, "It was woken while it was at work");
    assertEquals(keys, Array(2).fill("POST sb_secret_unit"));
  } finally {
    await server.shutdown();
  }
});

Deno.test("an endpoint that does not answer within ten seconds is a failed attempt", async () => {
  const { counts, took } = await hanging;
  assertEquals(counts, { ...NOTHING, claimed: 1, failed: 1 });
  assert(took >= 9.9 * SECOND && took < 15 * SECOND, `${took} ms`);
  const { status, attempts, last_error } = await outboxRow(sql, event);
  assertEquals([status, attempts, last_error], [
    "pending",
    1,
    "no answer within 10000 ms",
  ]);
  assertEquals(endpoint.about(event).length, 1);
});
