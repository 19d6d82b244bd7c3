// On a hosted project, pg_cron does this once per minute.
const WAKE_EVERY_MS = 5_000;

/**
 * Wakes the worker every five seconds until it is disposed of, unless the last
 * call is still in progress. If a call fails, the worker's own log says so.
 *
 * @param workerUrl the worker behind the gateway
 */
export function startWorkerTimer(
  workerUrl: string,
  { secretKey }: { readonly secretKey: string },
): Disposable {
  let isInProgress = false;
  const timer = setInterval(async () => {
    if (isInProgress) return;
    isInProgress = true;
    try {
      const response = await fetch(workerUrl, {
        method: "POST",
        headers: { apikey: secretKey },
      });
      await response.body?.cancel();
    } catch {
      // The stack is stopping, or has already reported which part ended.
    } finally {
      isInProgress = false;
    }
  }, WAKE_EVERY_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
