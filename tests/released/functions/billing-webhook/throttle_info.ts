import type { Log, LogFields } from "../_shared/billing/log.ts";

interface Summary {
  /** The fields of the newest line that was left out. */
  fields: LogFields;
  lines: number;
  outcomes: Record<string, number>;
}

/**
 * Returns a log that writes each `info` message at most once per interval. The
 * lines in between become one line at the end of the interval: the newest, how
 * many it stands for (`lines`), and the sums of their `outcomes`. Warnings and
 * errors are written at once.
 *
 * Supabase keeps a hundred lines in ten seconds. Under load, lines about
 * successes would use them up and failures would be lost.
 */
export function throttleInfo(
  log: Log,
  { intervalMs }: { intervalMs: number },
): Log {
  const waiting = new Map<string, Summary | undefined>();

  function endInterval(message: string): void {
    const summary = waiting.get(message);
    if (summary === undefined) {
      waiting.delete(message);
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

  function beginInterval(message: string): void {
    waiting.set(message, undefined);
    setTimeout(endInterval, intervalMs, message);
  }

  return function throttled(level, message, fields = {}) {
    if (level !== "info") return log(level, message, fields);
    if (!waiting.has(message)) {
      beginInterval(message);
      return log(level, message, fields);
    }
    const summary = waiting.get(message) ??
      { fields, lines: 0, outcomes: {} };
    summary.fields = fields;
    summary.lines++;
    const { outcomes } = fields;
    if (typeof outcomes === "object" && outcomes !== null) {
      for (const [outcome, count] of Object.entries(outcomes)) {
        summary.outcomes[outcome] = (summary.outcomes[outcome] ?? 0) + count;
      }
    }
    waiting.set(message, summary);
  };
}
