import { setImmediate } from "node:timers";

/** A clock that stops while work is under way. */
export interface VirtualClock {
  /** In milliseconds since it began. */
  now(): number;
  /** Resolves when the clock has come that far. */
  sleep(ms: number): Promise<void>;
  /** Real work, such as a request: the clock waits for it. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Lets time pass until the work is done. */
  run<T>(work: Promise<T>): Promise<T>;
}

/** A round of the event loop may begin work that the next one ends. */
const QUIET_ROUNDS = 3;

/**
 * Returns a clock that moves on to the next time that a sleeper waits for, as
 * soon as no work is under way.
 */
export function virtualClock(): VirtualClock {
  const sleepers: { at: number; wake: () => void }[] = [];
  let time = 0;
  let underWay = 0;

  async function settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_ROUNDS; quiet++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (underWay > 0) quiet = -1;
    }
  }

  return {
    now: () => time,
    sleep: (ms) =>
      new Promise((wake) => sleepers.push({ at: time + ms, wake })),
    during: async (work) => {
      underWay++;
      return await work().finally(() => underWay--);
    },
    run: async (work) => {
      let isDone = false;
      const mark = () => void (isDone = true);
      work.then(mark, mark);
      for (;;) {
        await settle();
        if (isDone) return await work;
        sleepers.sort((a, b) => a.at - b.at);
        const next = sleepers.shift();
        if (next === undefined) throw new Error("Nobody sleeps, nothing ends");
        time = next.at;
        next.wake();
      }
    },
  };
}
