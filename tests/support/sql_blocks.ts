/**
 * The SQL in the docs and the snippets, for readers to run.
 *
 * @module
 */
import { basename } from "node:path";

const ROOT = new URL("../../", import.meta.url);

/** Statements that belong together, and their place. */
export interface SqlBlock {
  /** `runbook.md:42`, or the name of a snippet's file. */
  readonly place: string;
  readonly sql: string;
}

/** Returns the text of a page in `docs`. */
export function readDoc(name: string): Promise<string> {
  return Deno.readTextFile(new URL(`docs/${name}`, ROOT));
}

/** Returns every block of the README and of `docs`, and every snippet. */
export async function everySqlBlock(): Promise<SqlBlock[]> {
  const files = ["docs/", "supabase/snippets/"].flatMap((folder) =>
    [...Deno.readDirSync(new URL(folder, ROOT))]
      .map(({ name }) => folder + name).sort()
  );
  const blocks = ["README.md", ...files].map(async (path) => {
    const name = basename(path);
    const text = () => Deno.readTextFile(new URL(path, ROOT));
    if (name.endsWith(".md")) return sqlBlocks(await text(), name);
    return name.endsWith(".sql") ? [{ place: name, sql: await text() }] : [];
  });
  return (await Promise.all(blocks)).flat();
}

/**
 * Returns the fenced blocks marked `sql` in a page, indented or not, and the
 * statements within a line of text, such as `select ...;`.
 */
export function sqlBlocks(markdown: string, page: string): SqlBlock[] {
  const found = markdown.matchAll(
    /^ *```sql\n([^]*?)^ *```$|`((?:select|notify)\s[^`]*;)`/gm,
  );
  return Array.from(found, ({ 1: fenced, 2: inline, index }) => ({
    place: `${page}:${markdown.slice(0, index).split("\n").length}`,
    sql: fenced ?? inline ?? "",
  }));
}

/**
 * Replaces a block's placeholders, which look like `<event id>`.
 *
 * @throws {Error} If a placeholder has no value.
 */
export function fillIn(
  sql: string,
  values: Readonly<Record<string, string>>,
): string {
  const filled = sql.replaceAll(
    /<([a-z][a-z -]*)>/g,
    (placeholder, name) => values[name] ?? placeholder,
  );
  const left = /<[a-z][a-z -]*>/.exec(filled)?.[0];
  if (left) throw new Error(`Cannot run: nothing stands for ${left} in ${sql}`);
  return filled;
}
