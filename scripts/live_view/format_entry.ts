import { printable } from "../common/print.ts";
import { nextStep } from "./next_step.ts";
import type { Delivery, Note, Outcome } from "./read_log_line.ts";

/** The styles that lines are painted with. */
export type Style = "dim" | "green" | "yellow" | "red" | "cyan";

/** Where a line is printed, and when. */
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

/**
 * Returns the line about a delivery, and for a failure a second one with the
 * next step. All are narrower than the terminal.
 */
export function deliveryLines(
  delivery: Delivery,
  { timeMs, columns, paint }: Terminal & { readonly timeMs: number },
): readonly string[] {
  const { status, outcome, type = "-", durationMs } = delivery;
  const { subscription = "-", event = "-", warning = "" } = delivery;
  const style = STYLES[outcome];
  const ids = Math.max(columns - 1 - FIXED, MIN_IDS);
  const first = Math.min(Math.floor(ids * SUBSCRIPTION_SHARE), MAX_ID);
  const second = Math.min(ids - first, MAX_ID);
  const line = [
    paint("dim", clockTime(timeMs)),
    paint(style, `${status}`),
    paint(style, outcome.padEnd(WORD)),
    fit(type.replace(/^customer\./, ""), TYPE),
    fit(subscription, first),
    fit(event, second),
    paint("dim", duration(durationMs).padStart(DURATION)),
  ].join(" ");
  const width = columns - 1 - INDENT;
  const below = outcome === "failed"
    ? [cutEnd(printable(nextStep(delivery)), width)]
    : wrap(printable(warning), width);
  return [
    line,
    ...below.map((text) => " ".repeat(INDENT) + paint("yellow", text)),
  ];
}

/** Returns the lines about anything else, wrapped at words and indented. */
export function noteLines(
  { word, text, isFailure }: Note,
  { timeMs, columns, paint }: Terminal & { readonly timeMs: number },
): readonly string[] {
  const head = TIME + STATUS + 2;
  const indent = head + WORD + 1;
  const width = columns - 1 - indent;
  const [first = "", ...more] = wrap(printable(text), width);
  return [
    [
      paint("dim", clockTime(timeMs)),
      " ".repeat(STATUS),
      paint(isFailure ? "red" : "cyan", fit(word, WORD)),
      first,
    ].join(" "),
    // A long URL stays in one piece, so that it can be copied.
    ...more.map((rest) =>
      " ".repeat(rest.length > width ? INDENT : indent) + rest
    ),
  ];
}

/** Returns the line about what was not shown one by one. */
export function summaryLine(
  counts: Readonly<Record<string, number>>,
  { timeMs, paint }: Pick<Terminal, "paint"> & { readonly timeMs: number },
): string {
  const entries = Object.entries(counts).filter(([, count]) => count > 0);
  const total = entries.reduce((sum, [, count]) => sum + count, 0);
  const parts = entries.map(([name, count]) => {
    const text = `${number(count)} ${name}`;
    return name === "failed" ? paint("red", text) : text;
  });
  return `${paint("dim", clockTime(timeMs))}     ... and ${
    number(total)
  } more: ${parts.join(", ")}`;
}

/**
 * Returns a text of exactly that many columns. A longer one loses its middle:
 * the beginning of an ID says what it is, and its end which.
 */
export function fit(text: string, width: number): string {
  const characters = Array.from(printable(text));
  if (columnsOf(characters) <= width) {
    return characters.join("") + " ".repeat(width - columnsOf(characters));
  }
  const kept = width - 1;
  const start = takeColumns(characters, Math.floor(kept / 2));
  const end = takeColumns(
    characters.toReversed(),
    kept - columnsOf(start),
  ).toReversed();
  const short = [...start, "…", ...end];
  return short.join("") + " ".repeat(width - columnsOf(short));
}

function takeColumns(
  characters: readonly string[],
  width: number,
): readonly string[] {
  let used = 0;
  const end = characters.findIndex((character) => {
    used += columnsOf([character]);
    return used > width;
  });
  return end === -1 ? characters : characters.slice(0, end);
}

/** Counts every character beyond Latin as two columns, which most are not. */
function columnsOf(characters: readonly string[]): number {
  return characters.reduce(
    (sum, one) => sum + (one > "\u024f" && one !== "…" ? 2 : 1),
    0,
  );
}

function cutEnd(text: string, width: number): string {
  const characters = Array.from(text);
  if (columnsOf(characters) <= width) return text;
  return `${takeColumns(characters, width - 1).join("")}…`;
}

function wrap(text: string, width: number): readonly string[] {
  const most = Math.max(width, MIN_IDS);
  return text.match(new RegExp(`\\S.{0,${most - 1}}(?= |$)|\\S+`, "g")) ?? [];
}

function duration(ms: number): string {
  return ms < 9_999.5 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}

function clockTime(ms: number): string {
  return new Date(ms).toTimeString().slice(0, TIME);
}

function number(count: number): string {
  return count.toLocaleString("en");
}
