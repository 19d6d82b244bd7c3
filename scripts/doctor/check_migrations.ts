import type postgres from "postgres";
import { type Finding, ok, red } from "./finding.ts";

/**
 * Whether the database has had exactly the migrations of this clone.
 *
 * @param files The names of the files in supabase/migrations.
 */
export async function checkMigrations(
  sql: postgres.Sql,
  { files }: { files: readonly string[] },
): Promise<Finding> {
  const wanted = files.map((name) => name.split("_")[0] ?? name);
  const applied = await appliedVersions(sql);
  const missing = wanted.filter((version) => !applied.includes(version));
  if (missing.length > 0) {
    return red(
      `${missing.length} of ${wanted.length} are missing, ${missing[0]} first`,
      "supabase db push --remote",
    );
  }
  const unknown = applied.filter((version) => !wanted.includes(version));
  // A project may have migrations of its own, from another repository.
  return ok(
    unknown.length === 0
      ? `all ${wanted.length} are applied`
      : `all ${wanted.length} are applied, and ${unknown.length} that this clone has not`,
  );
}

async function appliedVersions(sql: postgres.Sql): Promise<string[]> {
  const [table] = await sql`
    select to_regclass('supabase_migrations.schema_migrations') is not null as is_there`;
  if (!table?.is_there) return [];
  const rows =
    await sql`select version from supabase_migrations.schema_migrations`;
  return rows.map(({ version }) => version);
}
