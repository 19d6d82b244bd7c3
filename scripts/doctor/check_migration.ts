import type postgres from "postgres";
import { type Check, failed, ok } from "./check.ts";
import type { Instructions } from "./instructions.ts";

/** Returns the views and functions that a migration creates in schema public. */
export function publicNames(migration: string): readonly string[] {
  const created = migration.matchAll(
    /^create or replace (?:view|function) public\.(\w+)/gm,
  );
  return [...new Set(Array.from(created, ([, name = ""]) => name))];
}

/**
 * Checks that a database has what the migration creates. Not that the migration
 * is in the database's history, because a squash removes it from there.
 *
 * @param options.names See {@linkcode publicNames}.
 */
export async function checkMigration(
  sql: postgres.Sql,
  { names, instructions }: {
    names: readonly string[];
    instructions: Instructions;
  },
): Promise<Check> {
  const missing = await sql`
    select n.name
    from unnest(${[...names]}::text[]) as n (name)
    where to_regclass('public.' || n.name) is null
      and not exists (
        select from pg_proc p
        where p.pronamespace = 'public'::regnamespace and p.proname = n.name
      )`;
  if (missing.length === 0) return ok("is applied");
  return failed(
    missing.length === names.length
      ? "is not applied"
      : `is another version's: public.${missing[0]!.name} is missing`,
    instructions.migrate,
  );
}
