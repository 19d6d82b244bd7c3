/**
 * Names of the receiver in a project's own SQL. Statements that a `do` block makes
 * up are not seen, and neither is the database: the migration itself refuses if a
 * name is taken.
 *
 * @module
 */
import type { Receiver } from "./receiver.ts";

const CREATED =
  /\bcreate\s+(?:or\s+replace\s+)?(?:table|(?:materialized\s+)?view|function|type|(schema))\s+(?:if\s+not\s+exists\s+)?(?:"?public"?\s*\.\s*)?"?(billing\w*)/gi;

/** Returns what to do about each of the receiver's names that is taken. */
export function takenNames(
  { migrations }: Receiver,
  sql: ReadonlyMap<string, string>,
): string[] {
  const texts = [...migrations.values()];
  const ours = namesIn(texts.join("\n"));
  return [...sql].flatMap(([path, text]) => {
    const taken = texts.includes(text) ? [] : [...namesIn(text)];
    return taken.filter((name) => ours.has(name)).map((name) =>
      `supabase/${path} creates ${name}, a name of the receiver. If your database still has it, "supabase db push" creates nothing: undo this with git, rename yours in a migration, and run add again.`
    );
  });
}

/** Whether the project's own declarative files have the receiver's tables. */
export function hasReceiver(
  sql: ReadonlyMap<string, string>,
  folder: string,
): boolean {
  return [...sql].some(([path, text]) =>
    path.startsWith(folder) && !/\/billing_\d_\w+\.sql$/.test(path) &&
    /create table (if not exists )?"?billing"?\."?subscriptions\b/i.test(text)
  );
}

function namesIn(text: string): Set<string> {
  const names = text.replaceAll(/--.*|\/\*[^]*?\*\//g, " ").matchAll(CREATED);
  return new Set(
    Array.from(
      names,
      ([, schema, name]) => `${schema ? "schema " : "public."}${name}`,
    ),
  );
}
