import { lookUpProcess } from "./process_table.ts";
import { waitUntil } from "../common/wait_until.ts";

/** Asks a process to end and waits for it; after ten seconds it is killed. */
export async function endProcess(
  id: number,
  options: { signal: Deno.Signal },
): Promise<void> {
  async function isGone() {
    return await lookUpProcess(id) === undefined;
  }
  for (const signal of [options.signal, "SIGKILL"] as const) {
    if (await isGone()) return;
    Deno.kill(id, signal);
    if (await waitUntil(isGone, { timeout: 10_000 })) return;
  }
  throw new Error(`Cannot end process ${id}: it does not react to SIGKILL`);
}
