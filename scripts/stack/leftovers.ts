import { lookUpProcess, type ProcessEntry } from "./process_table.ts";
import { waitUntil } from "./wait_until.ts";

type Recorded = { id: number } & Pick<ProcessEntry, "started" | "command">;

/** The stack's running processes, as written down beside its data. */
export type ProcessRecord = {
  set: (name: string, processId: number | undefined) => Promise<void>;
};

/** Opens an empty record in a file. */
export function createProcessRecord(file: string): ProcessRecord {
  const processes: Record<string, Recorded> = {};
  let written: Promise<void> = Promise.resolve();

  async function set(name: string, processId: number | undefined) {
    delete processes[name];
    const entry = processId !== undefined && await lookUpProcess(processId);
    if (entry) {
      const { started, command } = entry;
      processes[name] = { id: processId, started, command };
    }
    // One write after the other, each with all that is known by then.
    written = written.then(() =>
      Deno.writeTextFile(file, JSON.stringify(processes))
    );
    await written;
  }

  return { set };
}

/**
 * Ends the processes of a stack that was killed before it could. An id alone
 * proves nothing, since ids are used again: the process must have begun at the
 * recorded moment with the recorded command.
 *
 * @param options.onProgress is told of each
 */
export async function endLeftovers(
  file: string,
  options: { onProgress?: ((text: string) => void) | undefined } = {},
): Promise<void> {
  for (const [name, recorded] of Object.entries(await readRecord(file))) {
    const entry = await lookUpProcess(recorded.id);
    if (entry?.started !== recorded.started) continue;
    if (entry.command !== recorded.command) continue;
    options.onProgress?.(
      `Ending ${name} of an earlier stack (process ${recorded.id})`,
    );
    await endProcess(recorded.id, { signal: "SIGTERM" });
  }
}

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

async function readRecord(file: string): Promise<Record<string, Recorded>> {
  try {
    return JSON.parse(await Deno.readTextFile(file));
  } catch {
    return {}; // none yet, or cut short with the machine
  }
}
