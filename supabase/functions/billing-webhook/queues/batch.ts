import { DeliveryError } from "../../_shared/billing/errors.ts";

interface GatherLimits {
  readonly maxTogether: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** When the wait ends, on the clock of `performance.now`. */
  readonly endMs: number;
}

/**
 * Makes a function that batches the items that arrive during a call into the
 * next call. Only one call runs at a time. An item that arrives while none runs
 * is sent at once, so a single event never waits.
 *
 * A sender that got an answer soon sends the next item. So a call takes at most half of
 * those that wait and those that the last call answered: the next ones are read
 * and verified while it runs, and are ready when it ends.
 *
 * @param send Makes one call. It returns for each item, in the same order, the
 * result or that item's own failure.
 * @returns A function that takes one item and resolves with its result. It
 * rejects with the item's failure, with the call's failure, or with `overloaded` if
 * too many items wait or the item waited too long for a call that hangs.
 */
export function gather<Item, Result>(
  send: (items: Item[]) => Promise<readonly (Result | DeliveryError)[]>,
  { maxTogether, maxWaiting, maxWaitMs }: GatherLimits,
): (item: Item) => Promise<Result> {
  // In order of arrival, so their waits end in the same order, and one timer is
  // enough. One per item costs processor time under load.
  const waiting: Waiting<Item, Result>[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let underWay = false;

  async function sendAll(): Promise<void> {
    underWay = true;
    let answered = 0;
    while (waiting.length > 0) {
      const half = Math.ceil((waiting.length + answered) / 2);
      const together = waiting.splice(0, Math.min(half, maxTogether));
      watchFirst();
      await sendTogether(together);
      answered = together.length;
    }
    underWay = false;
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
    const now = performance.now();
    const over = waiting.filter(({ endMs }) => endMs <= now);
    waiting.splice(0, over.length);
    watchFirst();
    for (const { reject } of over) {
      reject(overloaded(`The event waited ${maxWaitMs} ms for the database`));
    }
  }

  return function handIn(item) {
    if (waiting.length >= maxWaiting) {
      const message = `${maxWaiting} events already wait for the database`;
      return Promise.reject(overloaded(message));
    }
    return new Promise((resolve, reject) => {
      const endMs = performance.now() + maxWaitMs;
      waiting.push({ item, resolve, reject, endMs });
      if (!underWay) sendAll();
      else if (waiting.length === 1) watchFirst();
    });
  };
}

/**
 * Makes a function as {@linkcode gather} does, but with so many calls of one item under
 * way. The others wait, and their wait ends in the order in which it began.
 */
export function atMost<Item, Result>(
  call: (item: Item) => Promise<Result | DeliveryError>,
  { calls, maxWaiting, maxWaitMs }: Omit<GatherLimits, "maxTogether"> & {
    readonly calls: number;
  },
): (item: Item) => Promise<Result> {
  const waiting = new Set<() => void>();
  let underWay = 0;

  function turn(): Promise<void> {
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
    if (underWay < calls) underWay++;
    else await turn();
    try {
      const result = await call(item);
      if (result instanceof DeliveryError) throw result;
      return result;
    } finally {
      // The next one takes the place, so nobody else can.
      const [next] = waiting;
      if (next === undefined) underWay--;
      else next();
    }
  };
}

/** Then all are forgotten, which costs their neighbours one more failure. */
const MOST_SLOW = 1_000;

/**
 * Makes a function that sends items together, but alone if an item with the same key was
 * in a call that took too long: a trigger of the app may be slow for it again, and
 * nobody else's item should fail with it twice. Once it succeeds, it is as any other.
 */
export function aloneIfSlow<Item, Result>(
  { together, alone, keyOf }: {
    readonly together: (item: Item) => Promise<Result>;
    readonly alone: (item: Item) => Promise<Result>;
    readonly keyOf: (item: Item) => string;
  },
): (item: Item) => Promise<Result> {
  const slow = new Set<string>();
  return async function apply(item) {
    const key = keyOf(item);
    try {
      const result = await (slow.has(key) ? alone : together)(item);
      slow.delete(key);
      return result;
    } catch (error) {
      const isTooSlow = (error as Error).cause instanceof DOMException;
      if (slow.size >= MOST_SLOW) slow.clear();
      if (isTooSlow) slow.add(key);
      throw error;
    }
  };
}

function overloaded(message: string): DeliveryError {
  return new DeliveryError("overloaded", `${message}: see docs/scaling.md`);
}

/** An app locks a row for a moment; a person may for hours, but the provider waits. */
const PAUSES_MS = [25, 50, 100, 200, 400] as const;

/** No new try after that: a call may itself have waited for a lock. */
const PATIENCE_MS = 1_000;

/**
 * Makes a function that tries an event again while another transaction has
 * locked its records. The wait is here and not in the database, because there
 * all events of a call would wait.
 *
 * @returns A function that rejects with `record_locked` if the records stay locked for
 * about a second, and with any other failure at once.
 */
export function awaitLocks<Item, Result>(
  apply: (item: Item) => Promise<Result>,
): (item: Item) => Promise<Result> {
  return async function applyUnlocked(item) {
    const endMs = performance.now() + PATIENCE_MS;
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
