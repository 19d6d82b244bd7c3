/** Above this, all keys are forgotten: each may delay a shared call once more. */
const MAX_SLOW_KEYS = 1_000;

/**
 * Makes a function that sends items together, but an item alone if one with the same key
 * was in a call that took too long, until one succeeds. A trigger of the app may be
 * slow for it again, and then unrelated items would fail with it a second time.
 */
export function isolateSlow<Item, Result>(
  { together, alone, keyOf }: {
    readonly together: (item: Item) => Promise<Result>;
    readonly alone: (item: Item) => Promise<Result>;
    readonly keyOf: (item: Item) => string;
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
      const isTooSlow = (error as Error).cause instanceof DOMException;
      if (isTooSlow) slowKeys.add(key);
      throw error;
    }
  };
}
