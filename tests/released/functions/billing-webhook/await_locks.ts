import { DeliveryError } from "../_shared/billing/errors.ts";

/**
 * The pause before each new try. An app locks a row for a moment; a person may
 * lock it for hours, but the provider waits for a reply.
 */
const PAUSES_MS = [25, 50, 100, 200, 400] as const;

/** No new try after that: a call may itself have waited for a lock. */
const PATIENCE_MS = 1_000;

/**
 * Makes a function that tries an event again while another transaction has
 * locked its records. The wait is here and not in the database, because there
 * all events of a call would wait.
 *
 * @param apply Applies one event, maybe together with others.
 * @param options.sleep Resolves after that many milliseconds.
 * @param options.clock Returns milliseconds since the epoch.
 * @returns A function that calls `apply`. It rejects with `record_locked` if the
 * records stay locked for about a second, and with any other failure at once.
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
