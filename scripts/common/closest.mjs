/** Plain JavaScript, because the npm package's program uses it on Node.js. */

/**
 * Returns the name that was probably meant; undefined if none is close.
 *
 * @param {string} written
 * @param {readonly string[]} names
 */
export function closest(written, names) {
  const edits = (/** @type {string} */ name) => editsBetween(written, name);
  return names.filter((name) => edits(name) * 3 <= name.length)
    .sort((a, b) => edits(a) - edits(b))[0];
}

/**
 * Levenshtein's distance.
 *
 * @param {string} from
 * @param {string} to
 */
function editsBetween(from, to) {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...to].entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
