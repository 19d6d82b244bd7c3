import { nextStep } from "../common/next_step.ts";
import { printable, wrap } from "../common/cli.ts";

type Style = "dim" | "green" | "yellow" | "red" | "cyan";

const STYLES: Readonly<Record<string, Style>> = {
  applied: "green",
  duplicate: "yellow",
  stale: "yellow",
  refused: "yellow",
  failed: "red",
  acknowledged: "red",
};
/** Outcomes with lines below that say why, and what to do. */
const FAILURES = /^(?:failed|refused|acknowledged)$/;

const MIN_COLUMNS = 80;
/** The width without the IDs: 8, 3, 9, 22 and 7 columns, and six gaps. */
const FIXED_COLUMNS = 55;
const OUTCOME_COLUMNS = 9;
const MAX_ID = 30;
const INDENT = 4;

export function plainLine(line: string, source: string): string {
  return printable(`[${source}] ${line}`);
}

/** Returns a view of the functions' log, with one line per delivery. */
export function createLiveView(
  { print, columns, paint, clock }: {
    print: (line: string) => void;
    /** Asked for each line: a terminal's width changes. */
    columns: () => number;
    paint: (style: Style, text: string) => string;
    clock: () => number;
  },
) {
  function onLog(line: string, source: string) {
    if (columns() < MIN_COLUMNS) return print(plainLine(line, source));

    const fields = parseLine(line);
    const outcomes = countsOf(fields["outcomes"]);
    const { lines, duration_ms } = fields;

    if (typeof lines === "number" && source === "webhook") {
      const text = [`and ${lines} more`, describe(outcomes)].filter(Boolean)
        .join(": ");
      show(noteLines({ word: "...", text, isFailure: false }));
    } else if (typeof duration_ms === "number") {
      // Scanners and the doctor send unsigned requests: a 401 is not a failure.
      const other = fields["status"] === 401 ? "refused" : "failed";
      const [outcome = other] = Object.keys(outcomes);
      show(deliveryLines(fields, outcome));
    } else {
      show(noteLines(noteOf(fields, line, source)));
    }
  }

  function show([first, ...below]: readonly string[]) {
    const time = new Date(clock()).toTimeString().slice(0, 8);
    print(`${paint("dim", time)} ${first}`);
    for (const line of below) print(line);
  }

  function deliveryLines(fields: LogFields, outcome: string) {
    const style = STYLES[outcome] ?? "dim";
    const type = `${fields["type"] ?? "-"}`.replace(
      /^(?:customer|checkout)\./,
      "",
    );
    const ms = Math.round(Number(fields["duration_ms"]));
    const duration = ms < 10_000 ? `${ms} ms` : `${Math.round(ms / 1000)} s`;

    // The IDs share what the other columns leave.
    const excess = Math.max(0, outcome.length - OUTCOME_COLUMNS);
    const space = columns() - 1 - FIXED_COLUMNS - excess;
    const first = Math.min(Math.floor(space / 2), MAX_ID);
    const delivery = [
      paint(style, `${fields["status"] ?? 200}`),
      paint(style, outcome.padEnd(OUTCOME_COLUMNS)),
      fit(type, 22),
      fit(fields["subscription_id"], first),
      fit(fields["event_id"], Math.min(space - first, MAX_ID)),
      paint("dim", duration.padStart(7)),
    ].join(" ");

    const warning = fields["level"] === "warn" ? `${fields["message"]}` : "";
    const text = FAILURES.test(outcome) ? failureText(fields) : warning;
    const below = wrap(printable(text), columns() - 1 - INDENT)
      .map((line) => " ".repeat(INDENT) + paint("yellow", line));
    return [delivery, ...below];
  }

  function noteLines({ word, text, isFailure }: ReturnType<typeof noteOf>) {
    const start = 14 + OUTCOME_COLUMNS;
    const width = columns() - 1 - start;
    const [first = "", ...more] = wrap(printable(text), width);
    const style = isFailure ? "red" : "cyan";
    const painted = paint(style, fit(word, OUTCOME_COLUMNS));

    return [
      `    ${painted} ${first}`,
      // A long URL stays in one piece, so that it can be copied.
      ...more.map((line) =>
        " ".repeat(line.length > width ? INDENT : start) + line
      ),
    ];
  }

  return onLog;
}

/**
 * Pads a text to a width, or cuts out its middle. A character outside ASCII may be two
 * columns wide, so it is shown as "?".
 */
function fit(text: unknown, width: number): string {
  const plain = `${text ?? "-"}`.replace(/[^ -~]/gu, "?");
  if (plain.length <= width) return plain.padEnd(width);
  const half = Math.floor((width - 1) / 2);
  return `${plain.slice(0, half)}…${plain.slice(half + 1 - width)}`;
}

type LogFields = Readonly<Record<string, unknown>>;

function parseLine(line: string): LogFields {
  try {
    return line.startsWith("{") ? JSON.parse(line) : {};
  } catch {
    return {};
  }
}

function countsOf(value: unknown): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(value ?? {}).filter(([, count]) => count > 0),
  );
}

function describe(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts).map(([name, count]) => `${count} ${name}`)
    .join(", ");
}

function noteOf(fields: LogFields, line: string, source: string) {
  if (fields["message"] === undefined) {
    const [, kind, text] = /^(alert|verified): (.*)/.exec(line) ?? [];
    const word = kind === "verified" ? "notified" : kind ?? source;
    return { word, text: text ?? line, isFailure: kind === "alert" };
  }

  const { claimed: _claimed, ...counts } = countsOf(fields["counts"]);
  const text = [fields["message"], describe(counts), fields["error"]]
    .filter(Boolean).join(": ");
  return { word: source, text, isFailure: fields["level"] !== "info" };
}

function failureText(
  { code, error = "", provider = "a" }: LogFields,
): string {
  const reason = `${error}`.replace(
    /^(?:Cannot verify deliveries of provider \w+|Database call failed): /,
    "",
  );
  const step = code === "handler_missing"
    ? error
    : nextStep(`${code}`, `${provider}`) ?? reason;
  const [raised] = /^billing\.on_\w+ raised \w+/.exec(`${error}`) ?? [];
  return [code, raised, step].filter(Boolean).join(": ");
}
