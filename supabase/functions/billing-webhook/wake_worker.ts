import type { DatabaseAccess } from "../_shared/billing/database/client.ts";
import { keepAlive } from "../_shared/billing/keep_alive.ts";
import type { Log } from "../_shared/billing/log.ts";

export type Queue = "retries" | "notifications";

/**
 * Longer than a run of the worker: 55 s of notifications, in parallel with the retries;
 * then the current batch, which takes up to 27 s (deliver_notifications.ts), and 10 s to
 * release the leases. Shorter than the life of an instance, which is 150 s.
 */
const TIME_LIMIT_MS = 145_000;

/**
 * Makes the function that wakes the worker before its next scheduled run. It returns at
 * once; the call continues in the background.
 *
 * All wakes for a queue during a call become one more call after it. A call for one queue
 * does not wait for the other, whose run may take a minute. A wake that fails, or whose run
 * fails, is logged and not repeated: the schedule takes over.
 */
export function workerWaker(
  { supabaseUrl, secretKey }: DatabaseAccess,
  { fetch, log }: { fetch: typeof globalThis.fetch; log: Log },
): (queue: Queue) => void {
  const underWay = new Set<Queue>();
  const wanted = new Set<Queue>();

  async function callWhileWanted(queue: Queue): Promise<void> {
    underWay.add(queue);

    // Starting a request takes almost a millisecond: send the reply first.
    await new Promise((resolve) => setTimeout(resolve, 0));
    while (wanted.delete(queue)) await call(queue);
    underWay.delete(queue);
  }

  async function call(queue: Queue): Promise<void> {
    try {
      const response = await fetch(
        `${supabaseUrl}/functions/v1/billing-worker?queue=${queue}`,
        {
          method: "POST",
          headers: { apikey: secretKey },
          signal: AbortSignal.timeout(TIME_LIMIT_MS),
        },
      );

      await response.body?.cancel();
      if (!response.ok) {
        throw new Error(`the worker answered ${response.status}`);
      }
    } catch (error) {
      log("warn", "worker not woken: its schedule will do that", {
        error: (error as Error).message,
      });
    }
  }

  return function wakeWorker(queue) {
    wanted.add(queue);
    if (!underWay.has(queue)) keepAlive(callWhileWanted(queue));
  };
}
