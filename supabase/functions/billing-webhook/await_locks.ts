import { DeliveryError } from "../_shared/billing/errors.ts";

/**
 * Pauses before each new try, in milliseconds. An app has a row locked for a
 * moment; a person may have it for hours, and the provider waits for an answer.
 */
const PAUSES_MS = [25, 50, 100, 200, 400] as const;

/** A call may itself wait for a lock, and then it is not made again. */
const PATIENCE_MS = 1_000;

/**
 * Tries events again whose records somebody else has locked. The wait is here
 * and not in the database, where all events of a call would wait together.
 *
 * @param apply Applies one event, maybe together with others.
 * @param options.sleep Resolves after so many milliseconds.
 * @param options.clock The clock, in milliseconds since the epoch.
 * @returns a function that does the same. It rejects with `record_locked` if
 * the records stay locked for about a second, and with any other failure at once.
 */
export function awaitLocks<Item, Result>(
  apply: (item: Item) => Promise<Result>,
  { sleep, clock }: {
    sleep: (ms: number) => Promise<unknown>;
    clock: () => number;
  },
): (item: Item) => Promise<Result> {
  return async function applyUnlocked(item) {
    const endMs = clock() + PATIENCE_MS;
    for (const pauseMs of PAUSES_MS) {
      try {
        return await apply(item);
      } catch (error) {
        if (!isLocked(error) || clock() >= endMs) throw error;
      }
      await sleep(pauseMs);
    }
    return await apply(item);
  };
}

function isLocked(error: unknown): boolean {
  return error instanceof DeliveryError && error.code === "record_locked";
}
