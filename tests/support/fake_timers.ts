export interface FakeTimers extends Disposable {
  /** How many timers have been started and neither ended nor fired. */
  pending(): number;
  /** Lets time pass: fires what is due on the way, in order. */
  pass(milliseconds: number): Promise<void>;
}

type Call = (...args: unknown[]) => void;

/**
 * Replaces `setTimeout`, `clearTimeout` and `performance.now` in
 * the whole process, until it is disposed of.
 */
export function useFakeTimers(): FakeTimers {
  const { setTimeout, clearTimeout } = globalThis;
  const real = { setTimeout, clearTimeout };
  const realNow = performance.now;
  const timers = new Map<number, { due: number; call: () => void }>();
  let now = 0;
  let last = 0;

  Object.assign(globalThis, {
    setTimeout: (call: Call, delay = 0, ...args: unknown[]) => {
      timers.set(++last, { due: now + delay, call: () => call(...args) });
      return last;
    },
    clearTimeout: (id: number) => timers.delete(id),
  });
  performance.now = () => now;

  return {
    pending: () => timers.size,
    pass: async (milliseconds) => {
      const end = now + milliseconds;
      for (;;) {
        const [next] = [...timers].filter(([, { due }]) => due <= end)
          .toSorted(([, a], [, b]) => a.due - b.due);
        if (next === undefined) break;
        const [id, { due, call }] = next;
        now = due;
        timers.delete(id);
        call();
        await settle();
      }
      now = end;
    },
    [Symbol.dispose]: () => {
      Object.assign(globalThis, real);
      performance.now = realNow;
    },
  };
}

/** Runs everything that waits for no timer. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}
