import { assert } from "@std/assert";
import type postgres from "postgres";

/**
 * Returns the tables without a row, and the values of checked columns, such as
 * statuses, that no row has.
 */
export async function statesWithoutRows(sql: postgres.Sql): Promise<string[]> {
  const tables = await sql`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'`;
  const checks = await sql`
    select c.relname as name, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where k.contype = 'c' and c.relnamespace = 'public'::regnamespace`;
  const columns = checks.flatMap(({ name, definition }) =>
    [...definition.matchAll(/(\w+) = ANY \(ARRAY\[([^\]]+)\]/g)]
      .flatMap(([, column, list]) =>
        Array.from(
          list.matchAll(/'([^']*)'/g),
          ([, value]) => ({ name, column, value }),
        )
      )
  );
  assert(tables.length >= 5 && columns.length > 10);
  const missing: string[] = [];
  for (const { name } of tables) {
    const [row] = await sql`select from ${sql(`public.${name}`)} limit 1`;
    if (row === undefined) missing.push(name);
  }
  for (const { name, column, value } of columns) {
    const [row] = await sql`
      select from ${sql(`public.${name}`)}
      where ${sql(column)} = ${value} limit 1`;
    if (row === undefined) missing.push(`${name}.${column} = ${value}`);
  }
  return missing;
}
