/** What pg_cron does on a hosted project every minute, here more often. */
const EVERY = 5_000;

/**
 * Wakes the worker every five seconds, unless its last turn is still going on,
 * until it is disposed of. A turn that fails is told by the worker's own log.
 *
 * @param workerUrl The worker behind the gateway.
 */
export function startWorkerTimer(
  workerUrl: string,
  { secretKey }: { secretKey: string },
): Disposable {
  let isUnderWay = false;
  const timer = setInterval(async () => {
    if (isUnderWay) return;
    isUnderWay = true;
    try {
      const response = await fetch(workerUrl, {
        method: "POST",
        headers: { apikey: secretKey },
      });
      await response.body?.cancel();
    } catch {
      // The stack is stopping, or has told already what has ended.
    } finally {
      isUnderWay = false;
    }
  }, EVERY);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
