import { assert, assertEquals } from "@std/assert";
import { workerWaker } from "../../../supabase/functions/billing-webhook/wake_worker.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";

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
const notWoken = (error: string) =>
  `["warn","worker not woken: its schedule will do that",{"error":"${error}"}]`;
const REFUSED = notWoken("the worker answered 401");
const DOWN = notWoken("refused");
const WAKES: [script: string, does: string][] = [
  // One call at a time, and one more for the wakes meanwhile.
  [
    "wake wake reply wake wake reply 200 200 reply",
    `wake wake ${CALL} reply wake wake reply ${CALL} 200 200 reply`,
  ],
  [
    "wake reply wake 401 200 wake reply wake down 200",
    `wake ${CALL} reply wake ${REFUSED} ${CALL} 401 200 wake ${CALL} reply wake ${DOWN} ${CALL} down 200`,
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
