/** Timers whose time passes only when a test says so. */
export interface FakeTimers extends Disposable {
  /** How many timers have been started and neither ended nor fired. */
  pending(): number;
  /** Lets time pass: fires what is due on the way, in order. */
  pass(milliseconds: number): Promise<void>;
}

interface Timer {
  readonly due: number;
  readonly fire: () => void;
}

/**
 * Replaces `setTimeout`, `setInterval`, what ends them and `performance.now` in
 * the whole process, until it is disposed of.
 */
export function useFakeTimers(): FakeTimers {
  const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;
  const timers = new Map<number, Timer>();
  let now = 0;
  let last = 0;

  const start = (
    call: (...args: unknown[]) => void,
    delay = 0,
    ...args: unknown[]
  ) => {
    timers.set(++last, { due: now + delay, fire: () => call(...args) });
    return last;
  };
  const repeat = (call: () => void, delay: number) => {
    const id = ++last;
    const begin = () =>
      timers.set(id, {
        due: now + delay,
        fire: () => {
          begin();
          call();
        },
      });
    begin();
    return id;
  };
  const end = (id: number) => timers.delete(id);
  Object.assign(globalThis, {
    setTimeout: start,
    clearTimeout: end,
    setInterval: repeat,
    clearInterval: end,
  });
  const realNow = performance.now;
  performance.now = () => now;

  return {
    pending: () => timers.size,
    pass: async (milliseconds) => {
      const end = now + milliseconds;
      for (;;) {
        const [next] = [...timers]
          .filter(([, { due }]) => due <= end)
          .toSorted(([, a], [, b]) => a.due - b.due);
        if (next === undefined) break;
        const [id, { due, fire }] = next;
        timers.delete(id);
        now = due;
        fire();
        await settle();
      }
      now = end;
    },
    [Symbol.dispose]: () => {
      Object.assign(globalThis, {
        setTimeout,
        clearTimeout,
        setInterval,
        clearInterval,
      });
      performance.now = realNow;
    },
  };
}

/** Runs everything that waits for no timer. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}
