import { DeliveryError } from "../../_shared/billing/errors.ts";

type Waiting<Item, Result> = Readonly<{
  item: Item;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
  /** When the wait ends, on the clock of `performance.now`. */
  endMs: number;
}>;

export type BatchLimits = Readonly<
  Record<"calls" | "maxTogether" | "maxWaiting" | "maxWaitMs", number>
>;

/**
 * Makes a function that sends items in batches, with at most `calls` calls at a time. An
 * item that arrives while fewer run is sent at once, so a single event never waits.
 *
 * A call takes at most half of the items in flight (waiting now, or just
 * answered), so that the other half is read and verified while it runs.
 *
 * @param send Makes one call. It returns for each item, in the same order, the
 * result or that item's own failure.
 * @returns A function that rejects with the failure of the item or the call, or with
 * `overloaded` if too many items wait or the item waited too long for a call that hangs.
 */
export function batch<Item, Result>(
  send: (items: Item[]) => Promise<readonly (Result | DeliveryError)[]>,
  { calls, maxTogether, maxWaiting, maxWaitMs }: BatchLimits,
): (item: Item) => Promise<Result> {
  // Their waits end in the order of arrival, so one timer is enough. A timer per item
  // costs processor time under load.
  const waiting: Waiting<Item, Result>[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = 0;

  async function sendAll(): Promise<void> {
    running++;
    let answered = 0;
    while (waiting.length > 0) {
      const half = Math.ceil((waiting.length + answered) / 2);
      const together = waiting.splice(0, Math.min(half, maxTogether));
      watchFirst();
      await sendTogether(together);
      answered = together.length;
    }
    running--;
  }

  async function sendTogether(
    together: readonly Waiting<Item, Result>[],
  ): Promise<void> {
    try {
      const results = await send(together.map(({ item }) => item));
      for (const [index, { resolve, reject }] of together.entries()) {
        const result = results[index]!;
        if (result instanceof DeliveryError) reject(result);
        else resolve(result);
      }
    } catch (error) {
      for (const { reject } of together) reject(error);
    }
  }

  function watchFirst(): void {
    clearTimeout(timer);
    const [first] = waiting;
    timer = first && setTimeout(giveUp, first.endMs - performance.now());
  }

  function giveUp(): void {
    const nowMs = performance.now();
    const expired = waiting.filter(({ endMs }) => endMs <= nowMs);
    waiting.splice(0, expired.length);
    watchFirst();
    for (const { reject } of expired) {
      reject(overloaded(`The event waited ${maxWaitMs} ms for the database`));
    }
  }

  return function sendInBatch(item) {
    if (waiting.length >= maxWaiting) {
      const message = `${maxWaiting} events already wait for the database`;
      return Promise.reject(overloaded(message));
    }

    return new Promise((resolve, reject) => {
      const endMs = performance.now() + maxWaitMs;
      waiting.push({ item, resolve, reject, endMs });
      if (running < calls) sendAll();
      else if (waiting.length === 1) watchFirst();
    });
  };
}

function overloaded(message: string): DeliveryError {
  return new DeliveryError("overloaded", `${message}: see docs/scaling.md`);
}
