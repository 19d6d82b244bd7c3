import { diff } from "node:util";

/** A row of a comparison; a side that lacks the line is undefined. */
export interface ComparedLine {
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly isSame: boolean;
}

/** Of each text. The time grows with the lines and with the changes. */
const MAX_LINES = 5_000;

/** Node's diff: 1 for a line of the first text only, -1 of the second only. */
type Entry = readonly [operation: -1 | 0 | 1, line: string];

/**
 * Returns two texts side by side, line by line; undefined if they are too long
 * to compare.
 */
export function compareLines(
  before: string,
  after: string,
): readonly ComparedLine[] | undefined {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length > MAX_LINES || b.length > MAX_LINES) return undefined;
  const rows: ComparedLine[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  function flush() {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      rows.push({ before: removed[i], after: added[i], isSame: false });
    }
    [removed, added] = [[], []];
  }
  for (const [operation, line] of diff(a, b) as Entry[]) {
    if (operation === 0) {
      flush();
      rows.push({ before: line, after: line, isSame: true });
    } else (operation > 0 ? removed : added).push(line);
  }
  flush();
  return rows;
}
