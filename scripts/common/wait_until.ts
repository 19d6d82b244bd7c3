/**
 * Asks again and again until something is so.
 *
 * @param options.timeout in milliseconds
 * @param options.every milliseconds between two questions
 * @returns false where it was still not so when the time was up
 * @throws the signal's reason, once it is aborted
 */
export async function waitUntil(
  isSo: () => boolean | Promise<boolean>,
  options: { timeout: number; every?: number; signal?: AbortSignal },
): Promise<boolean> {
  const deadline = performance.now() + options.timeout;
  while (!(await isSo())) {
    options.signal?.throwIfAborted();
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, options.every ?? 25));
  }
  options.signal?.throwIfAborted();
  return true;
}
