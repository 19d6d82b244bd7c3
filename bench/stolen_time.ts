/** Processor time of all cores, in ticks since the machine started. */
export interface MachineTime {
  readonly total: number;
  /** Of it, what the host gave to others: it is missing here. */
  readonly stolen: number;
}

/** Returns the time so far; of a machine that does not tell, zeros. */
export async function machineTime(): Promise<MachineTime> {
  const text = await Deno.readTextFile("/proc/stat").catch(() => "");
  const [firstLine = ""] = text.split("\n");
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
  const ticks = firstLine.split(/\s+/).slice(1, 9).map(Number);
  const stolen = ticks[7] ?? 0;
  return { total: ticks.reduce((sum, each) => sum + each, 0), stolen };
}

/** Returns what share of the time between two moments was stolen, from 0 to 1. */
export function stolenShare(before: MachineTime, after: MachineTime): number {
  const total = after.total - before.total;
  return total > 0 ? (after.stolen - before.stolen) / total : 0;
}
