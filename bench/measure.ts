/** Medians and ranges, processor time, and how both are written down. */
import { processTree } from "../tests/support/machine.ts";

/** How to measure, from the command line. */
export interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: readonly number[];
  readonly peers: readonly string[];
  readonly chart: string | undefined;
  readonly scale: number;
  readonly older: string | undefined;
}

/** Median and range of several rounds of the same measurement. */
export type Spread = ReturnType<typeof spread>;

export function spread(values: readonly number[]) {
  return {
    median: median(values),
    min: Math.min(...values),
    max: Math.max(...values),
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const { length } = sorted;
  return (sorted[(length - 1) >> 1]! + sorted[length >> 1]!) / 2;
}

/** Returns a figure, or a median with its range in brackets. */
export function show(value: number | Spread, digits = 0): string {
  const format = (value: number) =>
    value.toLocaleString("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
  return typeof value === "number"
    ? format(value)
    : `${format(value.median)} (${format(value.min)}-${format(value.max)})`;
}

/** Returns a table in Markdown, with columns as a terminal shows them. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const widths = head.map((name, i) =>
    Math.max(3, name.length, ...rows.map((row) => row[i]!.length))
  );
  return [head, widths.map((width) => "-".repeat(width)), ...rows]
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join(" | "))
    .map((row) => `| ${row} |`).join("\n");
}

/**
 * Returns values in random order. What ran before matters, since Postgres still writes
 * what it left.
 */
export function shuffled<T>(values: readonly T[]): T[] {
  const places = new Map(values.map((value) => [value, Math.random()]));
  return values.toSorted((a, b) => places.get(a)! - places.get(b)!);
}

/** Seconds of processor time, in the order in which an event gets there. */
const NONE = { Receiver: 0, Gateway: 0, PostgREST: 0, Postgres: 0 };
export type ProcessorTimes = typeof NONE;
export const PROCESSES = Object.keys(NONE) as (keyof ProcessorTimes)[];

/** Names a process by its command line. A peer is a receiver, too. */
const COMMANDS = [
  [/bench\/load\.ts|billing-worker/, undefined],
  [/postgrest/, "PostgREST"],
  [/postgres/, "Postgres"],
  [/./, "Receiver"],
] as const;

/**
 * Returns the processor time of this process so far, which the gateway is a part of, and
 * of all that it has started except the load generator and the worker.
 */
export async function processorTimes(): Promise<ProcessorTimes> {
  const times = { ...NONE };
  for (const [id, { command }] of await processTree(Deno.pid)) {
    const { own, ended } = await processorTime(id);
    const [, name] = COMMANDS.find(([pattern]) => pattern.test(command)) ?? [];
    if (id === Deno.pid) times.Gateway = own;
    else if (name !== undefined) times[name] += own + ended;
  }
  return times;
}

const TICKS_PER_SECOND = 100; // on Linux, in `utime` and the like

/** Returns the seconds of a process, and of processes that it started and waited for. */
export async function processorTime(id: number) {
  const stat = await Deno.readTextFile(`/proc/${id}/stat`).catch(() => "");
  // The second field is a name in brackets, with anything in it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11);
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return { own: user + system, ended: endedUser + endedSystem };
}
