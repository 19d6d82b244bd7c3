import { DeliveryError } from "../../_shared/billing/errors.ts";

/** At this number, all keys are forgotten: each may delay a shared call once more. */
const MAX_SLOW_KEYS = 1_000;

/**
 * Makes a function that sends items together. After a call that took too long, items
 * with the keys of that call are sent alone until one succeeds: a trigger of the app may
 * be slow for them again, and unrelated items must not fail with them a second time.
 */
export function isolateSlow<Item, Result>(
  { together, alone, keyOf }: {
    together: (item: Item) => Promise<Result>;
    alone: (item: Item) => Promise<Result>;
    keyOf: (item: Item) => string;
  },
): (item: Item) => Promise<Result> {
  const slowKeys = new Set<string>();

  return async function sendIsolated(item) {
    const key = keyOf(item);
    const send = slowKeys.has(key) ? alone : together;
    try {
      const result = await send(item);
      slowKeys.delete(key);
      return result;
    } catch (error) {
      if (slowKeys.size >= MAX_SLOW_KEYS) slowKeys.clear();
      const isTooSlow = error instanceof DeliveryError && error.isTimeout;
      if (isTooSlow) slowKeys.add(key);
      throw error;
    }
  };
}
