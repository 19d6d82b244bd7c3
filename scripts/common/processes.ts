import { createCommand } from "./create_command.ts";
import { waitUntil } from "./wait_until.ts";

/** What the operating system knows about a process. */
export interface ProcessEntry {
  readonly parent: number;
  /** When it began, in the system's own notation; unique with the id. */
  readonly started: string;
  readonly command: string;
}

const END_WITHIN_MS = 10_000;

/**
 * Looks up a process. One that has ended but was not collected by its parent
 * counts as gone: in containers whose process 1 collects none, it would stay
 * forever.
 *
 * @returns undefined if there is no such process
 */
export function lookUpProcess(id: number): Promise<ProcessEntry | undefined> {
  return Deno.build.os === "linux" ? readProc(id) : askPs(id);
}

/** Returns all processes, by their ids. */
export async function runningProcesses(): Promise<Map<number, ProcessEntry>> {
  const running = new Map<number, ProcessEntry>();
  for (const id of await processIds()) {
    const entry = await lookUpProcess(id);
    if (entry) running.set(id, entry);
  }
  return running;
}

/** Returns the ids of a process's children. */
export async function childrenOf(id: number): Promise<number[]> {
  return [...await runningProcesses()]
    .flatMap(([child, { parent }]) => parent === id ? [child] : []);
}

/** Asks a process to end and waits for it. After ten seconds, kills it. */
export async function endProcess(
  id: number,
  options: { readonly signal: Deno.Signal },
): Promise<void> {
  async function isGone() {
    return await lookUpProcess(id) === undefined;
  }
  for (const signal of [options.signal, "SIGKILL"] as const) {
    if (await isGone()) return;
    Deno.kill(id, signal);
    if (await waitUntil(isGone, { timeoutMs: END_WITHIN_MS })) return;
  }
  throw new Error(`Cannot end process ${id}: it does not react to SIGKILL`);
}

// On Linux from /proc, because small images have no `ps`.
async function readProc(id: number): Promise<ProcessEntry | undefined> {
  try {
    const stat = await Deno.readTextFile(`/proc/${id}/stat`);
    const command = await Deno.readTextFile(`/proc/${id}/cmdline`);
    // proc(5): the name, field 2, is in brackets and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, parent, started] = [fields[0], fields[1], fields[19]];
    if (state === "Z" || parent === undefined || started === undefined) return;
    return {
      parent: Number(parent),
      started,
      command: command.replaceAll("\0", " ").trim(),
    };
  } catch {
    return undefined; // it ended, here or between the two reads
  }
}

async function askPs(id: number): Promise<ProcessEntry | undefined> {
  const columns = ["ppid=", "stat=", "lstart=", "command="];
  const text = await ps([...columns.flatMap((c) => ["-o", c]), "-p", `${id}`]);
  const found = /^\s*(\d+)\s+(\S+)\s+(\w+ \w+ +\d+ [\d:]+ \d+)\s+(.*)/.exec(
    text,
  );
  if (!found || found[2]?.startsWith("Z")) return undefined;
  return {
    parent: Number(found[1]),
    started: found[3] ?? "",
    command: found[4]?.trim() ?? "",
  };
}

async function processIds(): Promise<number[]> {
  const names = Deno.build.os === "linux"
    ? Array.from(Deno.readDirSync("/proc"), (entry) => entry.name)
    : (await ps(["-A", "-o", "pid="])).split("\n");
  return names.map(Number).filter((id) => Number.isInteger(id) && id > 0);
}

async function ps(args: string[]): Promise<string> {
  const { stdout } = await createCommand("ps", {
    args,
    env: { LC_ALL: "C" },
    stderr: "null",
  }).output();
  return new TextDecoder().decode(stdout);
}
