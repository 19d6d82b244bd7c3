/** Medians and ranges, processor time, and the format in which they are printed. */
import { processTree } from "../tests/support/machine.ts";

/** The options of the command line. */
export interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: readonly number[];
  readonly peers: readonly string[];
  readonly chart: string | undefined;
  readonly scale: number;
  readonly older: string | undefined;
}

/** The median and range of several rounds of a measurement. */
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

/** Formats a figure, or a median with its range in brackets. */
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

/** Returns a Markdown table whose columns are aligned, for a terminal. */
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
 * Returns values in random order. The order of measurements matters, because Postgres
 * may still be writing the changes of the previous one.
 */
export function shuffled<T>(values: readonly T[]): T[] {
  const places = new Map(values.map((value) => [value, Math.random()]));
  return values.toSorted((a, b) => places.get(a)! - places.get(b)!);
}

/** Seconds of processor time, in the order in which an event passes the processes. */
const NO_TIMES = { Receiver: 0, Gateway: 0, PostgREST: 0, Postgres: 0 };
export type ProcessorTimes = typeof NO_TIMES;
export const PROCESSES = Object.keys(NO_TIMES) as (keyof ProcessorTimes)[];

/** The name of a process by its command line; the first match counts. A peer is a receiver. */
const COMMANDS = [
  [/bench\/load\.ts|billing-worker/, undefined],
  [/postgrest/, "PostgREST"],
  [/postgres/, "Postgres"],
  [/./, "Receiver"],
] as const;

/**
 * Returns the processor times so far of this process, which runs the gateway, and of the
 * processes that it started, except the load generator and the worker.
 */
export async function processorTimes(): Promise<ProcessorTimes> {
  const times = { ...NO_TIMES };
  for (const [id, { command }] of await processTree(Deno.pid)) {
    const { self, children } = await processorTime(id);
    const [, name] = COMMANDS.find(([pattern]) => pattern.test(command)) ?? [];
    if (id === Deno.pid) times.Gateway = self;
    else if (name !== undefined) times[name] += self + children;
  }
  return times;
}

const TICKS_PER_SECOND = 100; // the unit of /proc/<id>/stat on Linux

/** Returns the seconds of a process, and of its children that have ended. */
export async function processorTime(id: number) {
  const stat = await Deno.readTextFile(`/proc/${id}/stat`).catch(() => "");
  // The second field, the name in brackets, may contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11);
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  return { self: user + system, children: childUser + childSystem };
}
