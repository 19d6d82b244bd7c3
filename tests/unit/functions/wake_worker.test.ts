import { assert, assertEquals } from "@std/assert";
import { workerWaker } from "../../../supabase/functions/billing-webhook/wake_worker.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

/** A worker that replies when it is told to, and the waker that calls it. */
function heldWorker() {
  const timers = useFakeTimers();
  const requests: Request[] = [];
  const replies: PromiseWithResolvers<Response>[] = [];
  const lines: unknown[][] = [];
  const kept: Promise<unknown>[] = [];
  Object.assign(globalThis, {
    EdgeRuntime: { waitUntil: (work: Promise<unknown>) => kept.push(work) },
  });
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
  const begin = () => timers.pass(0);
  return {
    ...{ wake, requests, lines, kept, reply, begin },
    [Symbol.dispose]: () => {
      Reflect.deleteProperty(globalThis, "EdgeRuntime");
      timers[Symbol.dispose]();
    },
  };
}

Deno.test("workerWaker() calls the worker after the reply, once for all wakes", async () => {
  using worker = heldWorker();
  const { wake, requests, lines, kept, reply, begin } = worker;
  for (let i = 0; i < 9; i++) assertEquals(wake(), undefined);
  await settle();
  assertEquals(requests.length, 0, "the reply to the provider goes first");
  await begin();
  const [{ method, url, headers }] = requests as [Request];
  assertEquals([method, headers.get("apikey")], ["POST", "sb_secret_unit"]);
  assertEquals(url, "http://a.test/functions/v1/billing-worker");
  for (let i = 0; i < 9; i++) wake();
  await begin();
  assertEquals(requests.length, 1, "one call at a time");
  await reply(200);
  assertEquals(requests.length, 2, "one more for the wakes meanwhile");
  await reply(200);
  assertEquals([requests.length, kept.length], [2, 1]);
  assertEquals(await kept[0], undefined);
  wake();
  await begin();
  assertEquals([requests.length, kept.length, lines], [3, 2, []]);
  await reply(200);
  // Elsewhere the process stays alive by itself.
  Reflect.deleteProperty(globalThis, "EdgeRuntime");
  wake();
  await begin();
  assertEquals([requests.length, kept.length], [4, 2]);
});

Deno.test("workerWaker() logs a call that fails, and goes on", async () => {
  const cases: [how: number | Error, error: string][] = [
    [401, "the worker answered 401"],
    [new TypeError("connection refused"), "connection refused"],
  ];
  for (const [how, error] of cases) {
    using worker = heldWorker();
    const { wake, requests, lines, kept, reply, begin } = worker;
    wake();
    await begin();
    wake();
    await reply(how);
    const message = "worker not woken: its schedule will deliver";
    assertEquals(lines, [["warn", message, { error }]]);
    assertEquals(requests.length, 2, "as it was asked to");
    await reply(how);
    assertEquals([requests.length, await kept[0]], [2, undefined]);
  }
});
