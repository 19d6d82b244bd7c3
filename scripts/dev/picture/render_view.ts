import { deliveryLines, noteLines } from "../../live_view/format_entry.ts";
import type { Style } from "../../live_view/format_entry.ts";
import { readLogLine } from "../../live_view/read_log_line.ts";
import type { Span } from "./terminal_svg.ts";

/** A line that `start --json` printed. */
export interface RecordedLine {
  /** When it was printed, on the clock of that machine: `09:05:07`. */
  readonly time: string;
  /** Which part of the stack printed it. */
  readonly source: string;
  readonly line: string;
}

/** What stands around a painted text until the spans are read: private use. */
const PAINTED = /\ue000(\w+)\ue001([^\ue002]*)\ue002|([^\ue000]+)/g;

/** Returns what `start` shows of these lines on a terminal of that width. */
export function renderView(
  recorded: readonly RecordedLine[],
  columns: number,
): readonly (readonly Span[])[] {
  return recorded.flatMap(({ time, source, line }) => {
    const entry = readLogLine(line, source);
    if (entry.kind === "summary") throw new Error(`too many at once: ${line}`);
    const where = { timeMs: atTime(time), columns, paint: mark };
    const lines = entry.kind === "note"
      ? noteLines(entry, where)
      : deliveryLines(entry, where);
    return lines.map(spansOf);
  });
}

function mark(style: Style, text: string): string {
  return `\ue000${style}\ue001${text}\ue002`;
}

function spansOf(text: string): readonly Span[] {
  return Array.from(
    text.matchAll(PAINTED),
    ([, style, painted, plain]) => ({
      style: style as Style | undefined,
      text: painted ?? plain ?? "",
    }),
  );
}

/** That time of some day, in whatever time zone this runs. */
function atTime(time: string): number {
  return new Date(`2026-11-22T${time}`).getTime();
}
