import { DeliveryError } from "../../_shared/billing/errors.ts";

/** Short: an app locks a row for a moment, and the provider waits for the reply. */
const PAUSES_MS = [25, 50, 100, 200, 400] as const;

/** After this time, no new attempt starts: a call may itself have waited for a lock. */
const MAX_RETRY_MS = 1_000;

/**
 * Makes a function that tries an event again for about a second while another transaction
 * has locked its records. In the database, all events of the call would wait.
 */
export function retryWhileLocked<Item, Result>(
  apply: (item: Item) => Promise<Result>,
): (item: Item) => Promise<Result> {
  return async function applyUnlocked(item) {
    const endMs = performance.now() + MAX_RETRY_MS;
    for (const pauseMs of PAUSES_MS) {
      try {
        return await apply(item);
      } catch (error) {
        const isLocked = error instanceof DeliveryError &&
          error.code === "record_locked";
        if (!isLocked || performance.now() >= endMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    return await apply(item);
  };
}
