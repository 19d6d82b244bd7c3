/** @jsxImportSource hono/jsx */
/**
 * A payload; if it was repaired, with what changed.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { diff } from "node:util";
import { link } from "./layout.tsx";
import { prettyJson, visibleJson } from "./text.tsx";

/** Of a payload on the page, in characters. The rest is in the download. */
const SHOWN = 64 * 1024;
/** Of a text to compare. Time and memory grow with its square. */
const MAX_LINES = 1_000;
/** Lines without a change that stay around one. */
const CONTEXT = 4;

/** Says why a payload is one JSON string. */
const ENCODINGS: Readonly<Record<string, string>> = {
  text:
    "Postgres cannot store this body as JSON, or only with numbers of more than 40 digits. So it is stored as text, in one JSON string.",
  base64:
    "The body is not text. These are its bytes as base64, in one JSON string.",
};

/** Returns the payload of a failure as the page shows it. */
export function payloadSection(
  { provider, event_id: event, payload, original, payload_encoding }: {
    provider: string;
    event_id: string;
    payload: string | null;
    original: string | null;
    payload_encoding: string;
  },
): Child {
  if (payload === null) {
    return "The payload was deleted: payloads of resolved failures are kept for 30 days.";
  }
  const download = (which: string, text: string) => (
    <a href={link("/failure/payload", { provider, event, which })} download>
      {text}
    </a>
  );
  const encoding = ENCODINGS[payload_encoding];
  return (
    <>
      {encoding && <p>{encoding}</p>}
      {original === null
        ? [shown(payload), download("payload", "Download the payload")]
        : [
          comparison(original, payload),
          download("payload", "Download the repaired payload"),
          " ",
          download("original", "Download the received payload"),
        ]}
    </>
  );
}

function prettyText(json: string): { text: string; isCut: boolean } {
  const pretty = prettyJson(json, SHOWN);
  const text = visibleJson(pretty.text);
  const isCut = pretty.isCut || text.length > SHOWN;
  return { text: text.slice(0, SHOWN), isCut };
}

function shown(json: string): Child {
  const { text, isCut } = prettyText(json);
  return [<pre tabindex={0}>{text}</pre>, isCut && cutNote(json)];
}

function cutNote({ length }: string): Child {
  const characters = length.toLocaleString("en");
  return (
    <p>
      Only the beginning is shown, of {characters}{" "}
      characters. The download has all of it.
    </p>
  );
}

function comparison(original: string, payload: string): Child {
  const [before, after] = [prettyText(original), prettyText(payload)];
  const lines = compareLines(before.text, after.text);
  if (lines === undefined) {
    return (
      <>
        <h3>Received</h3>
        {shown(original)}
        <h3>Repaired</h3>
        {shown(payload)}
      </>
    );
  }
  const marked = lines.map((line) => {
    if (line.startsWith("-")) return <del>{line}</del>;
    return line.startsWith("+") ? <ins>{line}</ins> : `${line}\n`;
  });
  return (
    <>
      <p>
        It was repaired. Lines with <del>-</del>{" "}
        are what was received, lines with <ins>+</ins> are what a retry applies.
      </p>
      <pre tabindex={0}>{marked}</pre>
      {(before.isCut || after.isCut) && cutNote(payload)}
    </>
  );
}

/**
 * Compares two texts line by line: each line of the result begins with "-" if
 * only the first text has it, with "+" if only the second has it, and else with a
 * space. Long runs of equal lines are replaced by their number.
 *
 * @returns undefined if they are too long to compare
 */
export function compareLines(
  before: string,
  after: string,
): readonly string[] | undefined {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length > MAX_LINES || b.length > MAX_LINES) return undefined;
  // Node's diff: 1 for a line of the first text only, -1 of the second only.
  const lines = diff(a, b) as [1 | 0 | -1, string][];
  const changed = lines.flatMap(([operation], i) => operation === 0 ? [] : [i]);
  const near = new Set(
    changed.flatMap((i) =>
      Array.from({ length: 2 * CONTEXT + 1 }, (_, j) => i - CONTEXT + j)
    ),
  );
  const result: string[] = [];
  let left = 0;
  for (const [i, [operation, line]] of lines.entries()) {
    if (!near.has(i)) left++;
    if (left > 0 && (near.has(i) || i === lines.length - 1)) {
      result.push(`@ ${left} equal lines`);
      left = 0;
    }
    if (near.has(i)) result.push(`${" -+".at(operation)}${line}`);
  }
  return result;
}
