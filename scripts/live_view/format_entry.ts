import { printable } from "../common/print.ts";
import { wrap } from "../common/wrap.ts";
import { cutEnd, fit } from "./fit_text.ts";
import { nextStep } from "./next_step.ts";
import type { Delivery, Note, Outcome } from "./read_log_line.ts";

/** The styles that lines are painted with. */
type Style = "dim" | "green" | "yellow" | "red" | "cyan";

/** Where a line is printed. */
export interface Terminal {
  readonly columns: number;
  readonly paint: (style: Style, text: string) => string;
}

const STYLES: Readonly<Record<Outcome, Style>> = {
  applied: "green",
  duplicate: "yellow",
  stale: "yellow",
  ignored: "dim",
  failed: "red",
};

const TIME = 8;
const STATUS = 3;
const WORD = 9;
const TYPE = 22;
const DURATION = 7;
/** What is not for the two IDs: the columns above and the gaps. */
const FIXED = TIME + STATUS + WORD + TYPE + DURATION + 6;
const MIN_IDS = 16;
const MAX_ID = 30;
/** Of the space for both: at 80 columns, `sub_local_a` fits. */
const SUBSCRIPTION_SHARE = 0.47;
const INDENT = 4;
/** What is left of the columns above if the terminal is narrow. */
const HEAD = TIME + STATUS + WORD + 3;
const MIN_TYPE = 12;
/** From here on, the next step has one line; below, a few. */
const STANDARD = 80;
const MAX_STEPS = 3;
/** Below this, other lines begin on a line of their own. */
const NARROW = 60;
/** Where the line about what was not shown begins. */
const SUMMARY = TIME + STATUS + 2;

/**
 * Returns the line about a delivery, and for a failure a second one with the
 * next step. All are narrower than the terminal, if that has 40 columns. Below
 * 72, the subscription and the duration are left out, and then the type.
 */
export function deliveryLines(
  delivery: Delivery,
  { timeMs, columns, paint }: Terminal & { readonly timeMs: number },
): readonly string[] {
  const { status, outcome, warning = "" } = delivery;
  const style = STYLES[outcome];
  const line = [
    paint("dim", clockTime(timeMs)),
    paint(style, `${status}`),
    paint(style, outcome.padEnd(WORD)),
    ...(columns - 1 < FIXED + MIN_IDS
      ? narrowCells(delivery, Math.max(columns - 1 - HEAD, MIN_IDS))
      : wideCells(delivery, { columns, paint })),
  ].join(" ");
  const width = columns - 1 - INDENT;
  const below = outcome === "failed"
    ? stepLines(delivery, { columns, width })
    : wrap(printable(warning), width);
  return [
    line,
    ...below.map((text) => " ".repeat(INDENT) + paint("yellow", text)),
  ];
}

function stepLines(
  delivery: Delivery,
  { columns, width }: { columns: number; width: number },
): readonly string[] {
  const step = printable(nextStep(delivery));
  const lines = columns < STANDARD
    ? wrap(step, width).slice(0, MAX_STEPS)
    : [step];
  return lines.map((text) => cutEnd(text, width));
}

function wideCells(
  { type, subscription = "-", event = "-", durationMs }: Delivery,
  { columns, paint }: Terminal,
): readonly string[] {
  const ids = columns - 1 - FIXED;
  const first = Math.min(Math.floor(ids * SUBSCRIPTION_SHARE), MAX_ID);
  return [
    fit(shortType(type), TYPE),
    fit(subscription, first),
    fit(event, Math.min(ids - first, MAX_ID)),
    paint("dim", duration(durationMs).padStart(DURATION)),
  ];
}

function narrowCells(
  { type, event = "-" }: Delivery,
  width: number,
): readonly string[] {
  const forType = Math.min(width - MIN_IDS - 1, TYPE);
  return forType < MIN_TYPE
    ? [fit(event, width)]
    : [fit(shortType(type), forType), fit(event, width - forType - 1)];
}

function shortType(type = "-"): string {
  return type.replace(/^customer\./, "");
}

/** Returns the lines about anything else, wrapped at words and indented. */
export function noteLines(
  { word, text, isFailure }: Note,
  { timeMs, columns, paint }: Terminal & { readonly timeMs: number },
): readonly string[] {
  const isNarrow = columns < NARROW;
  const indent = isNarrow ? INDENT : HEAD;
  const width = columns - 1 - indent;
  const lines = wrap(printable(text), width);
  const [first = "", ...more] = isNarrow ? ["", ...lines] : lines;
  return [
    [
      paint("dim", clockTime(timeMs)),
      " ".repeat(STATUS),
      paint(isFailure ? "red" : "cyan", fit(word, WORD)),
      first,
    ].join(" ").trimEnd(),
    // A long URL stays in one piece, so that it can be copied.
    ...more.map((rest) =>
      " ".repeat(rest.length > width ? INDENT : indent) + rest
    ),
  ];
}

/** Returns the lines about what was not shown one by one. */
export function summaryLines(
  counts: Readonly<Record<string, number>>,
  { timeMs, columns, paint }: Terminal & { readonly timeMs: number },
): readonly string[] {
  const entries = Object.entries(counts).filter(([, count]) => count > 0);
  const total = entries.reduce((sum, [, count]) => sum + count, 0);
  const parts = entries.map(([name, count]) => `${formatCount(count)} ${name}`);
  const indent = columns < NARROW ? INDENT : SUMMARY;
  const [first = "", ...more] = wrap(
    printable(`... and ${formatCount(total)} more: ${parts.join(", ")}`),
    columns - 1 - SUMMARY,
  );
  return [
    `${paint("dim", clockTime(timeMs))}${" ".repeat(SUMMARY - TIME)}${first}`,
    ...more.map((rest) => " ".repeat(indent) + rest),
  ].map((line) =>
    line.replace(/[\d,]+ failed/, (failed) => paint("red", failed))
  );
}

function duration(ms: number): string {
  return ms < 9_999.5 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}

function clockTime(ms: number): string {
  return new Date(ms).toTimeString().slice(0, TIME);
}

function formatCount(count: number): string {
  return count.toLocaleString("en");
}
