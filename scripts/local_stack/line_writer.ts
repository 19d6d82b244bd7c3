import { setTimeout as sleep } from "node:timers/promises";

/** The most lines that wait for the reader. */
const MAX_WAITING = 10_000;

/** Pause if the output is full: another process may have made it non-blocking. */
const FULL_RETRY_MS = 50;

/** If a reader is too slow, lines are dropped; if it has ended, `onGone` is called. */
export function createLineWriter(to: typeof Deno.stdout, onGone: () => void) {
  let waiting = 0;
  let last = Promise.resolve();

  async function write(line: string) {
    for (let rest = new TextEncoder().encode(`${line}\n`); rest.length > 0;) {
      try {
        rest = rest.subarray(await to.write(rest));
      } catch (error) {
        if (!(error instanceof Deno.errors.WouldBlock)) throw error;
        await sleep(FULL_RETRY_MS);
      }
    }
  }

  function print(line: string) {
    if (waiting > MAX_WAITING) return;
    waiting++;
    last = last.then(() => write(line)).catch(onGone).finally(() => waiting--);
  }

  async function flush({ withinMs }: { withinMs: number }) {
    await Promise.race([last, sleep(withinMs)]);
  }

  return { print, flush };
}
