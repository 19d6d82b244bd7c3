/** Of `utime` and its like, on Linux. */
const TICKS_PER_SECOND = 100;

/** What takes processor time, in the order in which an event gets there. */
export const PROCESSES = [
  "receiver or peer",
  "gateway",
  "PostgREST",
  "Postgres",
] as const;

/** One of them. */
export type ProcessName = typeof PROCESSES[number];

/** A figure of each of them. */
export type PerProcess<T> = Readonly<Record<ProcessName, T>>;

/** Returns a figure of each process. */
export function perProcess<T>(figure: (name: ProcessName) => T): PerProcess<T> {
  const figures = PROCESSES.map((name) => [name, figure(name)]);
  return Object.fromEntries(figures) as PerProcess<T>;
}

/**
 * Returns the processor time so far, in seconds, of this process, which the
 * gateway is a part of, and of all that it has started. Its direct children count
 * for as long as they run, theirs also afterwards: the servers' own processes, but
 * not the load generator.
 */
export async function processorTimes(): Promise<PerProcess<number>> {
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
  const ours = [...processes].filter(([id]) => isOurs(id));
  return perProcess((name) =>
    ours
      .filter(([, stat]) => stat.name === name)
      .reduce((sum, [, { ticks }]) => sum + ticks, 0) / TICKS_PER_SECOND
  );
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
  return {
    parent,
    name: isOwn
      ? "gateway"
      : command === "postgrest"
      ? "PostgREST"
      : command === "postgres"
      ? "Postgres"
      : "receiver or peer",
    ticks: user + system + (isOwn ? 0 : ended + endedSystem),
  };
}
