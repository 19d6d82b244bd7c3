import { diff } from "node:util";
import { withLf } from "./fingerprint.ts";

/** Lines around a change that are shown. */
const CONTEXT = 3;

/** 1 if only the first text has the line, -1 if only the second does. */
type Entry = readonly [operation: -1 | 0 | 1, line: string];

/**
 * Returns the difference of two texts as `diff -u` prints it: `-` before lines
 * of the first, `+` before lines of the second.
 */
export function unifiedDiff(
  first: { readonly name: string; readonly text: string },
  second: { readonly name: string; readonly text: string },
): string[] {
  const entries = diff(linesOf(first.text), linesOf(second.text)) as Entry[];
  const isShown = entries.map((_, i) =>
    entries.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1)
      .some(([operation]) => operation !== 0)
  );
  const lines = [`--- ${first.name}`, `+++ ${second.name}`];
  let [a, b] = [1, 1];
  for (const [i, [operation, line]] of entries.entries()) {
    if (isShown[i]) {
      if (!isShown[i - 1]) lines.push(hunkHead(entries, { isShown, i, a, b }));
      lines.push(`${operation === 0 ? " " : operation > 0 ? "-" : "+"}${line}`);
    }
    if (operation >= 0) a++;
    if (operation <= 0) b++;
  }
  return lines;
}

function hunkHead(
  entries: readonly Entry[],
  { isShown, i, a, b }: {
    isShown: readonly boolean[];
    i: number;
    a: number;
    b: number;
  },
): string {
  const end = isShown.indexOf(false, i);
  const hunk = entries.slice(i, end < 0 ? undefined : end);
  const inFirst = hunk.filter(([operation]) => operation >= 0).length;
  const inSecond = hunk.filter(([operation]) => operation <= 0).length;
  return `@@ -${a},${inFirst} +${b},${inSecond} @@`;
}

function linesOf(text: string): string[] {
  return withLf(text).replace(/\n$/, "").split("\n");
}
