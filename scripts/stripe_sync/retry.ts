/** What a retry needs from the command. */
export interface RetryTools {
  /** Waits this many milliseconds; rejects if the command is interrupted. */
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Receives a line to show before each wait. */
  readonly onWait: (text: string) => void;
}

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
  { sleep, onWait }: RetryTools,
): Promise<T> {
  for (let failures = 0;; failures++) {
    try {
      return await call();
    } catch (error) {
      const waitMs = waitMsAfter(error, failures);
      if (waitMs === undefined) throw error;
      const reason = (error as Error).message.trim().replace(/\.$/, "");
      onWait(`${reason}. Retrying in ${waitMs / 1000} s.`);
      await sleep(waitMs);
    }
  }
}
