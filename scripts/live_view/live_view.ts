import {
  deliveryLines,
  noteLines,
  summaryLines,
  type Terminal,
} from "./format_entry.ts";
import { type Entry, readLogLine } from "./read_log_line.ts";

/** A view of the functions' log lines for a person at a terminal. */
export interface LiveView extends Disposable {
  /** Takes a line of the webhook, the worker or the notification receiver. */
  readonly onLog: (line: string, source: string) => void;
}

/** How the view prints. */
export interface LiveViewOptions {
  readonly print: (line: string) => void;
  /** Asked for each line: a terminal's width changes. */
  readonly columns: () => number;
  readonly paint: Terminal["paint"];
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** Of each kind in one second: failures are not hidden behind successes. */
const MAX_SHOWN = 10;

/**
 * Returns a view with one line per delivery. In a second with many, it shows the
 * first ten successes, failures and other lines of each part, and counts the
 * rest in one line. It keeps nothing else, so a burst costs no memory.
 */
export function createLiveView(
  { print, columns, paint, clock }: LiveViewOptions,
): LiveView {
  let shown: Record<string, number> = {};
  let hidden: Record<string, number> = {};
  let endOfSecond: ReturnType<typeof setTimeout> | undefined;

  function onLog(line: string, source: string) {
    const entry = readLogLine(line, source);
    const timeMs = clock();
    endOfSecond ??= setTimeout(endSecond, 1000 - timeMs % 1000);
    if (entry.kind === "summary") {
      for (const [name, count] of Object.entries(entry.counts)) {
        hide(name, count);
      }
      return;
    }
    const kind = kindOf(entry);
    shown[kind] = (shown[kind] ?? 0) + 1;
    if (shown[kind] > MAX_SHOWN) {
      return hide(entry.kind === "note" ? "other lines" : entry.outcome, 1);
    }
    const where = { timeMs, columns: columns(), paint };
    const lines = entry.kind === "note"
      ? noteLines(entry, where)
      : deliveryLines(entry, where);
    for (const text of lines) print(text);
  }

  function hide(name: string, count: number) {
    hidden[name] = (hidden[name] ?? 0) + count;
  }

  function endSecond() {
    clearTimeout(endOfSecond);
    endOfSecond = undefined;
    shown = {};
    if (Object.keys(hidden).length === 0) return;
    const where = { timeMs: clock(), columns: columns(), paint };
    for (const text of summaryLines(hidden, where)) print(text);
    hidden = {};
  }

  return { onLog, [Symbol.dispose]: endSecond };
}

// A function's last words do not hide that it ended, which is another's note.
function kindOf(entry: Exclude<Entry, { kind: "summary" }>): string {
  if (entry.kind === "note") return entry.word;
  return entry.outcome === "failed" ? "failure" : "success";
}
