/** @jsxImportSource hono/jsx */
/**
 * Text from outside on a page. JSX escapes markup; this shows what the eye would
 * miss, control characters and characters that hide or reorder text, and formats
 * JSON, times and SQL.
 *
 * @module
 */
import type { Child } from "hono/jsx";

/** Control and format characters, line separators and lone surrogates. */
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

const SPLIT = new RegExp(`(${HIDDEN.source})`, "u");
/** White space between values stays. */
const HIDDEN_IN_JSON = new RegExp(`(?![\\t\\n\\r])${HIDDEN.source}`, "gu");
const HIDDEN_IN_SQL = new RegExp(`\\\\|(?!\\n)${HIDDEN.source}`, "gu");

/** Returns a text with each hidden character replaced by its code, as U+202E. */
export function visible(text: string): Child {
  const parts = text.split(SPLIT);
  const shown = parts.map((part, i) =>
    i % 2 === 0 ? part : <mark>{nameOf(part)}</mark>
  );
  return <bdi>{shown}</bdi>;
}

/** Returns the lines of a text, each as {@linkcode visible} returns it. */
export function visibleLines(text: string): Child {
  return text.split("\n").map((line, i) => [i > 0 && <br />, visible(line)]);
}

/** Returns a text for a title, which can contain no element. */
export function visibleText(text: string): string {
  return text.split(SPLIT)
    .map((part, i) => i % 2 === 0 ? part : `<${nameOf(part)}>`).join("");
}

/**
 * Returns JSON text with hidden characters as JSON writes them, as \u202e. It
 * stays the same document, and is fast to show, however many there are.
 */
export function visibleJson(json: string): string {
  return json.replace(HIDDEN_IN_JSON, (characters) =>
    characters.split("")
      .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`).join(""));
}

function nameOf(character: string): string {
  return `U+${hex(character.codePointAt(0)!, 4).toUpperCase()}`;
}

function hex(code: number, length: number): string {
  return code.toString(16).padStart(length, "0");
}

/** Cuts a text after so many characters, of one or two units each. */
export function shortened(text: string, length: number): string {
  // A character more at least, if there is one. Texts may be very long.
  const characters = [...text.slice(0, 2 * length + 1)];
  if (characters.length <= length) return text;
  return `${characters.slice(0, length).join("")}…`;
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
/** Deeper values are not indented any further: the text would grow squared. */
const MAX_INDENT = 24;

/**
 * Formats JSON text with two spaces per level. It moves the text itself, so that
 * no number is rounded and no duplicate key is lost.
 *
 * @param json Valid JSON.
 * @param maxLength Stops after this many characters.
 */
export function prettyJson(
  json: string,
  maxLength = Infinity,
): { text: string; isCut: boolean } {
  let [text, depth, previous] = ["", 0, ""];
  for (const [token] of json.matchAll(TOKEN)) {
    const isClosing = token === "}" || token === "]";
    if (isClosing) depth--;
    const isInside = previous === "{" || previous === "[";
    if (isClosing ? !isInside : isInside || previous === ",") {
      text += `\n${"  ".repeat(Math.min(depth, MAX_INDENT))}`;
    }
    text += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth++;
    if (text.length > maxLength) {
      return { text: text.slice(0, maxLength), isCut: true };
    }
    previous = token;
  }
  return { text, isCut: false };
}

/**
 * Returns a text as a string constant of SQL. One with a backslash or a hidden
 * character is an escape string, in which every such character is visible.
 */
export function sqlString(text: string): string {
  const escaped = text.replace(
    HIDDEN_IN_SQL,
    (character) =>
      character === "\\" ? "\\\\" : `\\U${hex(character.codePointAt(0)!, 8)}`,
  );
  return `${escaped === text ? "" : "e"}'${escaped.replaceAll("'", "''")}'`;
}

/** Returns a time of the database as `2026-11-22 00:31:05 UTC`. */
export function formatTime(text: string): string {
  const timeMs = Date.parse(text);
  if (Number.isNaN(timeMs)) return text; // such as infinity
  return `${new Date(timeMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const UNITS = [
  [48 * 3_600_000, 86_400_000, "days"],
  [3_600_000, 3_600_000, "h"],
  [60_000, 60_000, "min"],
  [0, 1_000, "s"],
] as const;

/** Returns how long ago a time is, or how far ahead; empty for infinity. */
export function relativeTime(text: string, nowMs = Date.now()): string {
  const distanceMs = Date.parse(text) - nowMs;
  const away = Math.abs(distanceMs);
  const unit = UNITS.find(([from]) => away >= from);
  if (unit === undefined) return "";
  const amount = `${Math.floor(away / unit[1])} ${unit[2]}`;
  return distanceMs > 0 ? `in ${amount}` : `${amount} ago`;
}
