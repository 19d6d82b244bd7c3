import { DeliveryError } from "../_shared/errors.ts";

/**
 * Pauses before each new try, in milliseconds. An app has a row locked for a
 * moment; a person may have it for hours, and the provider waits for an answer.
 */
const PAUSES_MS = [25, 50, 100, 200, 400] as const;

/**
 * Tries events again whose records somebody else has locked. The wait is here
 * and not in the database, where all events of a call would wait together.
 *
 * @param apply Applies one event, maybe together with others.
 * @param options.sleep Resolves after so many milliseconds.
 * @returns a function that does the same. It rejects with `record_locked` if
 * the records stay locked for about a second, and with any other failure at once.
 */
export function awaitLocks<Item, Result>(
  apply: (item: Item) => Promise<Result>,
  { sleep }: { sleep: (ms: number) => Promise<unknown> },
): (item: Item) => Promise<Result> {
  return async function applyUnlocked(item) {
    for (const pauseMs of PAUSES_MS) {
      try {
        return await apply(item);
      } catch (error) {
        if (!isLocked(error)) throw error;
      }
      await sleep(pauseMs);
    }
    return await apply(item);
  };
}

function isLocked(error: unknown): boolean {
  return error instanceof DeliveryError && error.code === "record_locked";
}
