/** For the commands, and for the npm package's program, which runs on Node.js. */

/**
 * Returns the name that was probably meant; undefined if none is close.
 *
 * @param {string} written
 * @param {readonly string[]} names
 * @returns {string | undefined}
 */
export function closest(written, names) {
  const [[name, edits] = ["", 1]] = names
    .map((name) => /** @type {const} */ ([name, editsBetween(written, name)]))
    .sort(([, a], [, b]) => a - b);
  return edits * 3 <= name.length ? name : undefined;
}

/**
 * Characters to insert, delete, replace or swap with the next one (the optimal
 * string alignment distance).
 *
 * @param {string} from
 * @param {string} to
 */
function editsBetween(from, to) {
  /** @type {number[][]} */
  const rows = [Array.from({ length: to.length + 1 }, (_, i) => i)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwapped = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      row.push(Math.min(
        (rows[i - 1]?.[j - 1] ?? 0) + (isSame ? 0 : 1),
        (rows[i - 1]?.[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        isSwapped ? (rows[i - 2]?.[j - 2] ?? 0) + 1 : Infinity,
      ));
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
