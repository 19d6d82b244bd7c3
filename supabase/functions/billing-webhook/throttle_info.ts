import type { Log, LogFields } from "../_shared/billing/log.ts";

interface Interval {
  written: number;
  /** How many were left out, and the line that stands for them. */
  lines: number;
  fields: LogFields;
}

/**
 * Returns a log that writes each `info` message at most `maxLines` times per interval, and
 * at its end one line for the others: the newest, how many it stands for (`lines`), and
 * the sums of their `outcomes`. Warnings and errors are written at once.
 *
 * Supabase keeps a hundred lines in ten seconds. Under load, lines about successes would
 * use them up and failures would be lost.
 */
export function throttleInfo(
  log: Log,
  { intervalMs, maxLines }: { intervalMs: number; maxLines: number },
): Log {
  const intervals = new Map<string, Interval>();

  function beginInterval(message: string, written: number): Interval {
    const interval = { written, lines: 0, fields: {} };
    intervals.set(message, interval);
    setTimeout(endInterval, intervalMs, message, interval);
    return interval;
  }

  function endInterval(message: string, { lines, fields }: Interval): void {
    intervals.delete(message);
    if (lines === 0) return;
    log("info", message, { ...fields, lines });
    beginInterval(message, 1);
  }

  return function throttled(level, message, fields = {}) {
    if (level !== "info") return log(level, message, fields);

    const interval = intervals.get(message) ?? beginInterval(message, 0);
    if (interval.written < maxLines) {
      interval.written++;
      return log(level, message, fields);
    }

    interval.lines++;
    const { outcomes } = interval.fields;
    interval.fields = { ...fields, ...sumOf(outcomes, fields["outcomes"]) };
  };
}

/** Returns the sums of outcomes, if there are any. */
function sumOf(...all: LogFields[string][]) {
  const outcomes: Record<string, number> = {};
  for (const one of all) {
    for (const [outcome, count] of Object.entries(Object(one))) {
      outcomes[outcome] = (outcomes[outcome] ?? 0) + Number(count);
    }
  }
  return Object.keys(outcomes).length > 0 ? { outcomes } : {};
}
