import { createCommand } from "../common/create_command.ts";
import { waitUntil } from "../common/wait_until.ts";

/** What the operating system knows of a process. */
export type ProcessEntry = {
  parent: number;
  /** When it began, in the system's own notation: with the id, unique. */
  started: string;
  command: string;
};

/**
 * Looks a process up. One that has ended but was not yet collected by its
 * parent counts as gone: where process 1 collects nothing, as in many
 * containers, it would stay for ever.
 *
 * @returns nothing where there is no such process
 */
export function lookUpProcess(id: number): Promise<ProcessEntry | undefined> {
  return Deno.build.os === "linux" ? readProc(id) : askPs(id);
}

/** The ids of a process's own children. */
export async function childrenOf(id: number): Promise<number[]> {
  const children: number[] = [];
  for (const other of await processIds()) {
    if ((await lookUpProcess(other))?.parent === id) children.push(other);
  }
  return children;
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
    if (await waitUntil(isGone, { timeoutMs: 10_000 })) return;
  }
  throw new Error(`Cannot end process ${id}: it does not react to SIGKILL`);
}

// Linux is read from /proc, because small images come without `ps`.
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
