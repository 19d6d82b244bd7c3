import { setTimeout as sleep } from "node:timers/promises";

/** Returns false if the time is up. */
export async function waitUntil(
  isMet: () => boolean | Promise<boolean>,
  { timeoutMs, intervalMs = 25, signal }: {
    timeoutMs: number;
    intervalMs?: number;
    signal?: AbortSignal | undefined;
  },
): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await isMet())) {
    signal?.throwIfAborted();
    if (performance.now() > deadlineMs) return false;
    await sleep(intervalMs);
  }
  signal?.throwIfAborted();
  return true;
}
