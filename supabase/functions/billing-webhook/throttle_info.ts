import type { Log, LogFields } from "../_shared/billing/log.ts";

interface Interval {
  written: number;
  /** Stands for the lines that were left out. */
  summary?: {
    fields: LogFields;
    lines: number;
    outcomes: Record<string, number>;
  };
}

/**
 * Returns a log that writes each `info` message at most `maxLines` times per
 * interval. The other lines become one line at the end of the interval: the
 * newest, how many it stands for (`lines`), and the sums of their `outcomes`.
 * Warnings and errors are written at once.
 *
 * Supabase keeps a hundred lines in ten seconds. Under load, lines about
 * successes would use them up and failures would be lost.
 */
export function throttleInfo(
  log: Log,
  { intervalMs, maxLines }: { intervalMs: number; maxLines: number },
): Log {
  const intervals = new Map<string, Interval>();

  function endInterval(message: string): void {
    const summary = intervals.get(message)?.summary;
    if (summary === undefined) {
      intervals.delete(message);
      return;
    }

    const { fields, lines, outcomes } = summary;
    const sums = Object.keys(outcomes).length > 0 && { outcomes };
    log("info", message, { ...fields, lines, ...sums });
    beginInterval(message, { written: 1 });
  }

  function beginInterval(message: string, interval: Interval): Interval {
    intervals.set(message, interval);
    setTimeout(endInterval, intervalMs, message);
    return interval;
  }

  return function throttled(level, message, fields = {}) {
    if (level !== "info") return log(level, message, fields);

    const interval = intervals.get(message) ??
      beginInterval(message, { written: 0 });
    if (interval.written < maxLines) {
      interval.written++;
      return log(level, message, fields);
    }

    const summary = interval.summary ??= { fields, lines: 0, outcomes: {} };
    summary.fields = fields;
    summary.lines++;
    const { outcomes } = fields;
    if (typeof outcomes === "object" && outcomes !== null) {
      for (const [outcome, count] of Object.entries(outcomes)) {
        summary.outcomes[outcome] = (summary.outcomes[outcome] ?? 0) + count;
      }
    }
  };
}
