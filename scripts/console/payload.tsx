/** @jsxImportSource hono/jsx */
import type { Child } from "hono/jsx";
// An older Deno lacks `diff`; imported by name, it would fail before requireDeno().
import * as util from "node:util";
import { printable } from "../common/cli.ts";
import type { Failure } from "./failures.tsx";
import * as ui from "./ui.tsx";

const MAX_SHOWN_CHARACTERS = 64 * 1024;
/** With more, a browser's text field gets slow. */
const MAX_DRAFT_CHARACTERS = 2 * 1024 * 1024;
/** Time and memory grow with the square of the lines. */
const MAX_COMPARED_LINES = 1_000;

export interface Draft {
  readonly text: string;
  /** The row's version when editing began. */
  readonly version: string;
  /** Why it was not saved. */
  readonly faults?: readonly string[];
}

function escapeHidden(json: string): string {
  return json.replace(/[^\t\n\r]+/g, printable);
}

/** Parses JSON, and keeps each number as it is written. */
export function parseExactly(json: string) {
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  return JSON.parse(
    json,
    (_key, value, { source = "" } = {}) =>
      typeof value === "number" ? rawJSON(source) : value,
  );
}

export function prettyJson(json: string): string {
  try {
    return escapeHidden(JSON.stringify(parseExactly(json), null, 2));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return escapeHidden(json); // too deep to be indented
  }
}

export function payloadSection(
  failure: Failure,
  draft: Draft | undefined,
): Child {
  const { payload, original } = failure;
  if (payload === null) {
    return "The payload was deleted: payloads of resolved failures are kept for 30 days.";
  }
  const pretty = prettyJson(payload);
  const received = original === null ? pretty : prettyJson(original);
  const isCut = [pretty, received].some((text) =>
    text.length > MAX_SHOWN_CHARACTERS ||
    original && text.split("\n").length > MAX_COMPARED_LINES
  );

  return [
    failure.resolved_at === null && (
      <details open={draft !== undefined}>
        <summary role="button" class="outline">Repair</summary>
        {repairForm(failure, draft ?? { text: initialDraft(failure, payload) })}
      </details>
    ),

    failure.payload_encoding !== "json" && (
      <p>
        This body is stored in one JSON string, as text or as base64, because
        Postgres cannot store it as JSON, or a number has more than 40 digits.
      </p>
    ),
    original !== null &&
    <p>Repaired: lines with - were received, lines with + replace them.</p>,
    <pre tabindex={0}>
      {original === null
        ? pretty.slice(0, MAX_SHOWN_CHARACTERS)
        : compareLines(received, pretty).map(markedLine)}
    </pre>,
    isCut && <p>Only the beginning is shown. The SQL editor has all of it.</p>,
  ];
}

function initialDraft({ payload_encoding }: Failure, payload: string): string {
  if (payload_encoding === "text") return escapeHidden(JSON.parse(payload));
  const pretty = prettyJson(payload);
  return pretty.length > MAX_SHOWN_CHARACTERS ? escapeHidden(payload) : pretty;
}

function markedLine(line: string) {
  if (line.startsWith("-")) return <del>{line}</del>;
  return line.startsWith("+") ? <ins>{line}</ins> : `${line}\n`;
}

/** Marks the lines of only one text; "…" stands for lines that are not near a change. */
export function compareLines(before: string, after: string): string[] {
  const compared = (text: string) =>
    text.slice(0, MAX_SHOWN_CHARACTERS).split("\n").slice(
      0,
      MAX_COMPARED_LINES,
    );
  // In Node's diff, 1 marks a line of the first text only, -1 of the second only.
  const lines = util.diff(compared(before), compared(after)) as [
    1 | 0 | -1,
    string,
  ][];

  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - 4), at + 5).some(([operation]) => operation);
  return lines.flatMap(([operation, line], i) => {
    if (isNear(i)) return [`${" -+".at(operation)}${line}`];
    return i === 0 || isNear(i - 1) ? ["…"] : [];
  });
}

function repairForm(
  failure: Failure,
  { text, faults = [] }: Pick<Draft, "text" | "faults">,
) {
  if (text.length > MAX_DRAFT_CHARACTERS) {
    return "This payload is too long to edit in a browser. Repair it in the SQL editor: see docs/operate.md.";
  }
  const content = (
    <>
      {faults.length > 0 && (
        <article class="bad" role="alert">
          Not saved:
          <ul>{faults.map((fault) => <li>{ui.visible(fault)}</li>)}</ul>
        </article>
      )}

      <label>
        Payload, as JSON
        <textarea
          name="text"
          autocomplete="off"
          rows={24}
          wrap="off"
          spellcheck={false}
          required
          // Scrolls to it, and so to the reasons above it.
          autofocus={faults.length > 0}
        >
          {text}
        </textarea>
      </label>

      <p>
        The payload is checked as the receiver would check it, and the database
        tries the event. Saving does not retry it: do that afterwards. The
        original payload is kept.
      </p>
      <button>Check and save</button>
    </>
  );
  return ui.form("/failure/repair", versionOf(failure), content);
}

export function versionOf({ provider, event_id, version }: Failure): ui.Fields {
  return { provider, event: event_id, version: version ?? "" };
}
