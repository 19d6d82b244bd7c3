/** What pg_cron does on a hosted project every minute, here more often. */
const EVERY = 5_000;

/**
 * Wakes the worker every five seconds, until it is disposed of. A turn that
 * fails is told by the worker's own log.
 *
 * @param workerUrl The worker behind the gateway.
 */
export function startWorkerTimer(
  workerUrl: string,
  { secretKey }: { secretKey: string },
): Disposable {
  const timer = setInterval(async () => {
    try {
      const response = await fetch(workerUrl, {
        method: "POST",
        headers: { apikey: secretKey },
      });
      await response.body?.cancel();
    } catch {
      // The stack is stopping, or has told already what has ended.
    }
  }, EVERY);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
