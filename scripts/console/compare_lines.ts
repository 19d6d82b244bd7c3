import { diff } from "node:util";

/** A row of a comparison; a side that lacks the line is undefined. */
export interface ComparedLine {
  readonly before: string | undefined;
  readonly after: string | undefined;
  readonly isSame: boolean;
}

/** Of each text. Time and memory grow with the lines times the changes. */
const MAX_LINES = 5_000;
/** Lines that the other text lacks. */
const MAX_CHANGES = 500;

/** Node's diff: 1 for a line of the first text only, -1 of the second only. */
type Entry = readonly [operation: -1 | 0 | 1, line: string];

/**
 * Returns two texts side by side, line by line; undefined if they are too long
 * to compare, or too different.
 */
export function compareLines(
  before: string,
  after: string,
): readonly ComparedLine[] | undefined {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length > MAX_LINES || b.length > MAX_LINES) return undefined;
  if (countChanges(a, b) > MAX_CHANGES) return undefined;
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

function countChanges(a: readonly string[], b: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const line of a) counts.set(line, (counts.get(line) ?? 0) + 1);
  for (const line of b) counts.set(line, (counts.get(line) ?? 0) - 1);
  return counts.values().reduce((sum, count) => sum + Math.abs(count), 0);
}
