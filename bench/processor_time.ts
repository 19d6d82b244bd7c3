/** Of `utime` and its like, on Linux. */
const TICKS_PER_SECOND = 100;

/**
 * Returns the processor time so far of this process and of all that it has
 * started, in seconds. Its direct children count for as long as they run, theirs
 * also afterwards: the servers' own processes, but not the load generator.
 */
export async function processorTime(): Promise<number> {
  const processes = new Map<number, { parent: number; ticks: number }>();
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const id = Number(name);
    // It may have ended meanwhile.
    const stat = await Deno.readTextFile(`/proc/${id}/stat`).catch(() => "");
    // The second field is a name in brackets, with anything in it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
    const [, parent = NaN] = fields;
    const [user = 0, system = 0, ended = 0, endedSystem = 0] = fields.slice(11);
    const ticks = user + system + (id === Deno.pid ? 0 : ended + endedSystem);
    processes.set(id, { parent, ticks });
  }
  function isOurs(id: number): boolean {
    if (id === Deno.pid) return true;
    const parent = processes.get(id)?.parent;
    return parent !== undefined && isOurs(parent);
  }
  let ticks = 0;
  for (const [id, process] of processes) {
    if (isOurs(id)) ticks += process.ticks;
  }
  return ticks / TICKS_PER_SECOND;
}
