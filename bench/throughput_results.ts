import type { PerProcess } from "./processor_time.ts";
import type { Spread } from "./statistics.ts";

/** The most connections that a target is measured over. */
export const MOST_CONNECTIONS = 64;

/** The numbers of connections, as in the results. */
export const CONNECTIONS = [MOST_CONNECTIONS, 16, 1] as const;

/**
 * How often each target is measured. A single round may be a third too high or
 * too low, because the host gives processor time to other machines.
 */
export const ROUNDS = 7;

/** Returns a number of connections, in words. */
export function overConnections(connections: number): string {
  return connections === 1 ? "1 connection" : `${connections} connections`;
}

/** What one target came to at a number of connections. */
export interface TargetResult {
  readonly name: string;
  readonly connections: number;
  readonly perSecond: Spread;
  readonly p50: Spread;
  readonly p99: Spread;
  /** In milliseconds of one core per event. */
  readonly processor: PerProcess<Spread>;
  readonly errors: number;
  /** The generator's share of one core. */
  readonly generatorCpu: number;
  /** Share of the machine's processor time that its host gave to others. */
  readonly stolen: Spread;
}

/** Everything end to end. */
export interface Throughput {
  readonly targets: readonly TargetResult[];
  /** The SQL function alone, by how it is called. */
  readonly sqlCeilings: Readonly<Record<string, Spread>>;
}
