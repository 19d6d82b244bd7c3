/**
 * Returns the candidate that is most like a text, if one is alike enough to be
 * meant: at most a third of its characters differ.
 */
export function closest(
  text: string,
  candidates: readonly string[],
): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: editsBetween(text, candidate) }))
    .sort((a, b) => a.edits - b.edits);
  if (best === undefined) return undefined;
  return best.edits * 3 <= best.candidate.length ? best.candidate : undefined;
}

/** Characters to insert, delete or replace: Levenshtein's distance. */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[to.length]!;
}
