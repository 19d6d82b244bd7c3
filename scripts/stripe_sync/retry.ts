/**
 * Waits this many milliseconds, and shows why if a reason is given; rejects if
 * the command is interrupted.
 */
export type Wait = (milliseconds: number, reason?: string) => Promise<void>;

/**
 * Makes a call, and repeats it after each failure that has a wait.
 *
 * @param waitMsAfter Returns how long to wait after an error, given how often
 * the call failed before, or undefined to give up.
 * @throws What the last call threw.
 */
export async function retry<T>(
  call: () => Promise<T>,
  waitMsAfter: (error: unknown, failures: number) => number | undefined,
  wait: Wait,
): Promise<T> {
  for (let failures = 0;; failures++) {
    try {
      return await call();
    } catch (error) {
      const waitMs = waitMsAfter(error, failures);
      if (waitMs === undefined) throw error;
      const reason = (error as Error).message.trim().replace(/\.$/, "");
      await wait(waitMs, `${reason}. Retrying in ${waitMs / 1000} s.`);
    }
  }
}
