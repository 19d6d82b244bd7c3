/**
 * Names of the receiver that a project's own migrations use. The first migration
 * refuses such a database; `add` says so before it writes anything, because the
 * user's renaming has to come before that migration.
 *
 * @module
 */

/** A name in schema public, and not one of another schema. */
const NAME = String.raw`(?:"?public"?\.)?"?(\w+)\b"?(?!\.)`;
const KIND = String
  .raw`(?:unlogged\s+)?(?:table|(?:materialized\s+)?view|function)`;
/** Of a function: its arguments, whose types may have brackets too. */
const ARGUMENTS = String.raw`(?:\s*\([^;]*?\))?`;

const STATEMENT = new RegExp(
  [
    String
      .raw`\bcreate\s+(?:or\s+replace\s+)?${KIND}\s+(?:if\s+not\s+exists\s+)?${NAME}`,
    String.raw`\bdrop\s+${KIND}\s+(?:if\s+exists\s+)?${NAME}`,
    String
      .raw`\balter\s+${KIND}\s+(?:if\s+exists\s+)?(?:only\s+)?${NAME}${ARGUMENTS}\s+(?:rename\s+to\s+"?(\w+)|set\s+schema\s)`,
  ].join("|"),
  "gi",
);

/**
 * Returns which names are taken after a project's migrations, each with the file
 * that took it last: tables, views and functions. What is not plain SQL, such as
 * a `do` block that makes up a statement, is not seen, nor are indexes.
 *
 * @param first The receiver's first migration, which lists its names.
 * @param files The project's own migrations, in their order.
 */
export function takenNames(
  first: string,
  files: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const ours = namesIn(first);
  const taken = new Map<string, string>();
  function take(name: string | undefined, file: string): void {
    if (name !== undefined && ours.has(name)) taken.set(name, file);
  }
  for (const [file, text] of files) {
    const statements = withoutComments(text).toLowerCase().matchAll(STATEMENT);
    for (const [, created, dropped, altered, renamed] of statements) {
      take(created, file);
      taken.delete(dropped ?? altered ?? "");
      take(renamed, file);
    }
  }
  return taken;
}

/** The names in the lists of the first migration. */
function namesIn(first: string): ReadonlySet<string> {
  const lists = first.matchAll(/unnest\('\{([^}]*)\}'/g);
  return new Set(
    Array.from(lists, ([, list = ""]) => list.split(",")).flat()
      .map((name) => name.trim()),
  );
}

function withoutComments(text: string): string {
  return text.replaceAll(/--.*|\/\*[^]*?\*\//g, " ");
}
