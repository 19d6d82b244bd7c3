import { setTimeout as sleep } from "node:timers/promises";
import {
  createService,
  type Service,
  type ServiceObserver,
  type ServiceSpec,
} from "./service.ts";

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;

/** A service that ran as long as this is started again soon. */
const STEADY_MS = 60_000;

/**
 * Returns a service that starts again if it ends by itself, each time after
 * twice the wait. A function that is being edited may fail at any moment, and on
 * Supabase the next request starts another worker.
 *
 * @param onLog also called with a line of source `restart` about each end
 */
export function createKeptService(
  spec: ServiceSpec,
  onLog: ServiceObserver["onLog"],
): Service {
  const service = createService(spec, { onLog, onUnexpectedEnd: startAgain });
  let ending = new AbortController();
  let startedMs = 0;
  let delayMs = FIRST_DELAY_MS;

  async function startAgain(text: string) {
    const { signal } = ending;
    if (performance.now() - startedMs > STEADY_MS) delayMs = FIRST_DELAY_MS;
    for (let why = text;;) {
      onLog(
        `${reasonOf(why, spec.name)}. It starts again in ${
          delayMs / 1000
        } s, or when you save.`,
        "restart",
      );
      await sleep(delayMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS);
      try {
        await startOnce(signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        why = (error as Error).message;
      }
    }
  }

  async function startOnce(signal?: AbortSignal) {
    await service.start(signal);
    startedMs = performance.now();
  }

  return {
    start: (signal) => {
      ending = new AbortController();
      return startOnce(signal);
    },
    stop: () => {
      ending.abort();
      return service.stop();
    },
    kill: () => {
      ending.abort();
      return service.kill();
    },
  };
}

/** Returns the error that Deno printed last; else the first line. */
function reasonOf(text: string, name: string): string {
  const [first = "", ...lines] = text.split("\n").map((line) => line.trim());
  const error = lines.findLast((line) => line.startsWith("error: "));
  return error ? `${name} ended: ${error}` : first.replace(/\.$/, "");
}
