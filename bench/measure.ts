/** Medians and ranges, processor time, and how both are written down. */

/** Median and range of several rounds of the same measurement. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** What several rounds come to. */
export function spread(values: readonly number[]): Spread {
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
  };
}

/** The middle of several measurements. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? sorted[middle] ?? NaN
    : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2;
}

/** Returns a figure, or a median with its range in brackets. */
export function show(value: number | Spread, digits: number): string {
  const format = (value: number) =>
    value.toLocaleString("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
  return typeof value === "number"
    ? format(value)
    : `${format(value.median)} (${format(value.min)} to ${format(value.max)})`;
}

/** Returns a table in Markdown. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** In random order: what ran before matters, since Postgres still writes what it left. */
export function shuffled<T>(values: readonly T[]): T[] {
  return values.map((value) => ({ value, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ value }) => value);
}

/** What the figures were measured on, in one line. */
export async function describeMachine(): Promise<string> {
  const cpus = await Deno.readTextFile("/proc/cpuinfo").catch(() => "");
  const model = /model name\s*: (.*)/.exec(cpus)?.[1] ?? "unknown processor";
  const memory = Math.round(Deno.systemMemoryInfo().total / 2 ** 30);
  return `${navigator.hardwareConcurrency} cores (${model}), ${memory} GiB, ` +
    `${Deno.build.os} ${Deno.osRelease()}, Deno ${Deno.version.deno}, ` +
    "Postgres 17.10 with fsync on, PostgREST 12.0.2";
}

/** What takes processor time, in the order in which an event gets there. */
export const PROCESSES = [
  "receiver or peer",
  "gateway",
  "PostgREST",
  "Postgres",
] as const;

type ProcessName = typeof PROCESSES[number];

/** Seconds of processor time, by process. */
export type ProcessorTimes = Record<ProcessName, number>;

/** Of `utime` and its like, on Linux. */
const TICKS_PER_SECOND = 100;

/**
 * Returns the processor time so far of this process, which the gateway is a part
 * of, and of all that it has started. Its direct children count for as long as they
 * run, theirs also afterwards: the servers' own processes, but not the generator.
 */
export async function processorTimes(): Promise<ProcessorTimes> {
  const processes = new Map<number, ProcessStat>();
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const id = Number(name);
    // It may have ended meanwhile.
    const stat = await Deno.readTextFile(`/proc/${id}/stat`).catch(() => "");
    processes.set(id, readStat(stat, { isOwn: id === Deno.pid }));
  }
  function isOurs(id: number): boolean {
    if (id === Deno.pid) return true;
    const parent = processes.get(id)?.parent;
    return parent !== undefined && isOurs(parent);
  }
  const times = Object.fromEntries(PROCESSES.map((name) => [name, 0]));
  for (const [id, { name, ticks }] of processes) {
    if (isOurs(id)) times[name]! += ticks / TICKS_PER_SECOND;
  }
  return times as ProcessorTimes;
}

interface ProcessStat {
  readonly parent: number;
  readonly name: ProcessName;
  readonly ticks: number;
}

function readStat(stat: string, { isOwn }: { isOwn: boolean }): ProcessStat {
  // The second field is a name in brackets, with anything in it.
  const command = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
  const [, parent = NaN] = fields;
  const [user = 0, system = 0, ended = 0, endedSystem = 0] = fields.slice(11);
  const byCommand: Record<string, ProcessName> = {
    postgrest: "PostgREST",
    postgres: "Postgres",
  };
  return {
    parent,
    name: isOwn ? "gateway" : byCommand[command] ?? "receiver or peer",
    ticks: user + system + (isOwn ? 0 : ended + endedSystem),
  };
}
