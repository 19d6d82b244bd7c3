import { DeliveryError } from "../_shared/errors.ts";

/** How many go together, and how many may wait for their turn. */
export interface GatherLimits {
  readonly maxTogether: number;
  readonly maxWaiting: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers what comes while a call is under way into the next call. One call is
 * under way at a time; an item that comes while none is goes at once, so a
 * single event never waits, and the more come the more share a round trip.
 *
 * @param send Makes one call. It answers for each item, in the same order,
 * with a result or with that item's own failure.
 * @returns a function that hands in one item and resolves with its result. It
 * rejects with the item's failure, with that of the call, or with `overloaded`
 * where more wait already than may.
 */
export function gather<Item, Result>(
  send: (items: Item[]) => Promise<readonly (Result | DeliveryError)[]>,
  { maxTogether, maxWaiting }: GatherLimits,
): (item: Item) => Promise<Result> {
  let waiting: Waiting<Item, Result>[] = [];
  let underWay = false;

  async function sendAll(): Promise<void> {
    underWay = true;
    while (waiting.length > 0) {
      const together = waiting.slice(0, maxTogether);
      waiting = waiting.slice(maxTogether);
      await sendTogether(together);
    }
    underWay = false;
  }

  async function sendTogether(
    together: readonly Waiting<Item, Result>[],
  ): Promise<void> {
    try {
      const results = await send(together.map(({ item }) => item));
      together.forEach(({ resolve, reject }, index) => {
        const result = results[index] as Result | DeliveryError;
        if (result instanceof DeliveryError) reject(result);
        else resolve(result);
      });
    } catch (error) {
      for (const { reject } of together) reject(error);
    }
  }

  return function handIn(item) {
    if (waiting.length >= maxWaiting) {
      const message = `${maxWaiting} events wait for the database already`;
      return Promise.reject(new DeliveryError("overloaded", message));
    }
    return new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!underWay) sendAll();
    });
  };
}
