/**
 * Fits text into the columns of a terminal.
 *
 * @module
 */
import { printable } from "../common/print.ts";

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

/** Returns a text that loses its end if it has more columns than that. */
export function cutEnd(text: string, width: number): string {
  const characters = Array.from(text);
  if (columnsOf(characters) <= width) return text;
  return `${takeColumns(characters, width - 1).join("")}…`;
}
