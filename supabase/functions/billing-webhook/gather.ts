import { DeliveryError } from "../_shared/billing/errors.ts";

/** How many go together, and how many may wait for their turn, for how long. */
export interface GatherLimits {
  readonly maxTogether: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Ends the wait; an item that goes at once has none. */
  readonly timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Gathers what comes while a call is under way into the next call. One call is
 * under way at a time; an item that comes while none is goes at once, so a
 * single event never waits, and the more come the more share a round trip.
 *
 * An item that has waited too long is given up before it is sent, so a call
 * that hangs does not hold up everything behind it.
 *
 * @param send Makes one call. It answers for each item, in the same order,
 * with a result or with that item's own failure.
 * @returns a function that hands in one item and resolves with its result. It
 * rejects with the item's failure, with that of the call, or with `overloaded`
 * if more wait already than may, or if it waited too long.
 */
export function gather<Item, Result>(
  send: (items: Item[]) => Promise<readonly (Result | DeliveryError)[]>,
  { maxTogether, maxWaiting, maxWaitMs }: GatherLimits,
): (item: Item) => Promise<Result> {
  // In the order in which they came.
  const waiting = new Set<Waiting<Item, Result>>();
  let underWay = false;

  async function sendAll(): Promise<void> {
    underWay = true;
    while (waiting.size > 0) await sendTogether(takeTogether());
    underWay = false;
  }

  function takeTogether(): Waiting<Item, Result>[] {
    const together = [...waiting].slice(0, maxTogether);
    for (const entry of together) {
      waiting.delete(entry);
      clearTimeout(entry.timer);
    }
    return together;
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

  function giveUp(entry: Waiting<Item, Result>): void {
    waiting.delete(entry);
    entry.reject(overloaded(`No turn at the database within ${maxWaitMs} ms`));
  }

  return function handIn(item) {
    if (waiting.size >= maxWaiting) {
      const message = `${maxWaiting} events wait for the database already`;
      return Promise.reject(overloaded(message));
    }
    return new Promise((resolve, reject) => {
      const timer = underWay
        ? setTimeout(() => giveUp(entry), maxWaitMs)
        : undefined;
      const entry = { item, resolve, reject, timer };
      waiting.add(entry);
      if (!underWay) sendAll();
    });
  };
}

function overloaded(message: string): DeliveryError {
  return new DeliveryError("overloaded", message);
}
