import { DeliveryError } from "../../_shared/billing/errors.ts";

export type WaitingLimits = Readonly<{
  maxWaiting: number;
  maxWaitMs: number;
}>;

/**
 * Makes a function that makes one call per item, at most `calls` at the same time.
 * Further items wait for their turn, in order of arrival; the function rejects with
 * `overloaded` if too many wait or the item waited too long.
 */
export function limitCalls<Item, Result>(
  call: (item: Item) => Promise<Result | DeliveryError>,
  { calls, maxWaiting, maxWaitMs }: WaitingLimits & { calls: number },
): (item: Item) => Promise<Result> {
  const waiting = new Set<() => void>();
  let running = 0;

  function waitForTurn(): Promise<void> {
    if (waiting.size >= maxWaiting) {
      const message = `${maxWaiting} events already wait to be applied alone`;
      return Promise.reject(overloaded(message));
    }

    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        waiting.delete(begin);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(begin);
        reject(
          overloaded(`The event waited ${maxWaitMs} ms to be applied alone`),
        );
      }, maxWaitMs);
      waiting.add(begin);
    });
  }

  return async function callInTurn(item) {
    if (running < calls) running++;
    else await waitForTurn();

    try {
      const result = await call(item);
      if (result instanceof DeliveryError) throw result;
      return result;
    } finally {
      // The next waiting item takes over the place, so that no new item can take it.
      const [beginNext] = waiting;
      if (beginNext === undefined) running--;
      else beginNext();
    }
  };
}

export function overloaded(message: string): DeliveryError {
  return new DeliveryError("overloaded", `${message}: see docs/scaling.md`);
}
