import { DeliveryError } from "../_shared/billing/errors.ts";

/** How many items go in one call, and how many may wait, and how long. */
export interface GatherLimits {
  readonly maxTogether: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Ends the wait; undefined for an item that is sent at once. */
  readonly timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Makes a function that batches the items that arrive during a call into the
 * next call. Only one call runs at a time. An item that arrives while none runs
 * is sent at once, so a single event never waits; under load, many events share
 * a round trip.
 *
 * Whoever got an answer soon sends the next item. So a call takes at most half of
 * those that wait and those that the last call answered: the next ones are read
 * and verified while it runs, and are ready when it ends.
 *
 * An item that waits too long is rejected before it is sent, so a call that
 * hangs does not hold up all items behind it.
 *
 * @param send Makes one call. It returns for each item, in the same order, the
 * result or that item's own failure.
 * @returns A function that takes one item and resolves with its result. It
 * rejects with the item's failure, with the call's failure, or with
 * `overloaded` if too many items wait or the item waited too long.
 */
export function gather<Item, Result>(
  send: (items: Item[]) => Promise<readonly (Result | DeliveryError)[]>,
  { maxTogether, maxWaiting, maxWaitMs }: GatherLimits,
): (item: Item) => Promise<Result> {
  // In order of arrival.
  const waiting = new Set<Waiting<Item, Result>>();
  let underWay = false;

  async function sendAll(): Promise<void> {
    underWay = true;
    let answered = 0;
    while (waiting.size > 0) {
      const half = Math.ceil((waiting.size + answered) / 2);
      const together = take(Math.min(half, maxTogether));
      await sendTogether(together);
      answered = together.length;
    }
    underWay = false;
  }

  function take(count: number): Waiting<Item, Result>[] {
    const together = [...waiting].slice(0, count);
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
    entry.reject(
      overloaded(
        `The event waited ${maxWaitMs} ms for the database: see docs/scaling.md`,
      ),
    );
  }

  return function handIn(item) {
    if (waiting.size >= maxWaiting) {
      const message =
        `${maxWaiting} events already wait for the database: see docs/scaling.md`;
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
