import { ask, type Project } from "./project.ts";

/** Events of one hour, by outcome. */
export interface HourCount {
  /** In ISO 8601. */
  readonly hour: string;
  readonly applied: number;
  readonly stale: number;
  readonly failed: number;
}

/** The outcomes of events, from the bottom of the chart to its top. */
export const OUTCOMES = ["applied", "stale", "failed"] as const;

/** Counts events, and keeps the result for a while. */
export interface HourCounter {
  /** Returns the last hours in order, also those without an event. */
  count(): Promise<readonly HourCount[]>;
  /** Makes the next call count again. */
  forget(): void;
}

const HOURS = 72;
const HOUR_MS = 3_600_000;
/** The chart and its table need the same numbers. */
const KEEP_MS = 60_000;

/**
 * Returns a counter. If a million events arrived within these hours, Postgres
 * needs more than 200 ms to count them.
 *
 * @param clock Returns milliseconds since the epoch.
 */
export function createHourCounter(
  project: Project,
  clock: () => number,
): HourCounter {
  let kept: Promise<readonly HourCount[]> | undefined;
  let keptUntilMs = 0;

  function count(): Promise<readonly HourCount[]> {
    const nowMs = clock();
    if (kept !== undefined && nowMs < keptUntilMs) return kept;
    const counting = readHours(project, nowMs);
    kept = counting;
    keptUntilMs = nowMs + KEEP_MS;
    counting.catch(() => {
      if (kept === counting) kept = undefined;
    });
    return counting;
  }

  return { count, forget: () => kept = undefined };
}

async function readHours(
  project: Project,
  nowMs: number,
): Promise<readonly HourCount[]> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_events_per_hour")
        .select("hour, outcome, events").abortSignal(signal),
  );
  const last = Math.floor(nowMs / HOUR_MS);
  const counts = Array.from({ length: HOURS }, (_, i) => ({
    hour: new Date((last - HOURS + 1 + i) * HOUR_MS).toISOString(),
    applied: 0,
    stale: 0,
    failed: 0,
  }));
  for (const { hour, outcome, events } of data) {
    const index = Math.floor(Date.parse(hour ?? "") / HOUR_MS) - last + HOURS -
      1;
    const count = counts[index];
    const known = OUTCOMES.find((one) => one === outcome);
    if (count !== undefined && known !== undefined) count[known] += events ?? 0;
  }
  return counts;
}
