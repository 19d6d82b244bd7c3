import type { Log, LogFields } from "../_shared/billing/log.ts";

interface Summary {
  /** The fields of the newest line that was left out. */
  fields: LogFields;
  lines: number;
  outcomes: Record<string, number>;
}

interface Interval {
  /** Lines that were written. */
  written: number;
  /** Of the lines that were left out. */
  summary?: Summary;
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
    log("info", message, {
      ...fields,
      lines,
      ...(Object.keys(outcomes).length > 0 ? { outcomes } : {}),
    });
    beginInterval(message);
  }

  /** Begins with one line that is written. */
  function beginInterval(message: string): void {
    intervals.set(message, { written: 1 });
    setTimeout(endInterval, intervalMs, message);
  }

  return function throttled(level, message, fields = {}) {
    if (level !== "info") return log(level, message, fields);
    const interval = intervals.get(message);
    if (interval === undefined) {
      beginInterval(message);
      return log(level, message, fields);
    }
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
