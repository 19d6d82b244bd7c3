import type postgres from "postgres";
import { type Check, failed, ok } from "./check.ts";
import type { Instructions } from "./instructions.ts";

/**
 * Checks that all migrations of this clone are applied. A project that the
 * receiver was added to has them under versions of its own, so the number in
 * the name counts. After a squash there are no names, but what the migrations
 * create is there.
 *
 * @param options.files The names of the files in supabase/migrations.
 */
export async function checkMigrations(
  sql: postgres.Sql,
  { files, instructions }: {
    files: readonly string[];
    instructions: Instructions;
  },
): Promise<Check> {
  const rows = await appliedMigrations(sql);
  const applied = new Set(
    rows.flatMap(({ version, name }) => [version, numberIn(`_${name}`)]),
  );
  const lacking = files.filter((file) =>
    !applied.has(numberIn(file)) && !applied.has(versionOf(file))
  );
  // A squash takes all files up to one, which may keep its name or not.
  const first = files.find((file) => !lacking.includes(file));
  const isThere = lacking.length > 0 && await hasReceiver(sql);
  const missing = lacking.filter((file) =>
    !isThere || (first !== undefined && file > first)
  );
  if (missing.length > 0) {
    return failed(
      `${missing.length} of ${files.length} are missing, the first is ${
        missing[0]
      }`,
      instructions.migrate,
    );
  }
  if (lacking.length > 0) {
    return ok(`all ${files.length} are applied, and were squashed`);
  }
  const others = rows.length - files.length;
  return ok(
    others <= 0
      ? `all ${files.length} are applied`
      : `all ${files.length} are applied, and ${others} that are not in this clone`,
  );
}

/** A migration's number in this repository, such as 0001. */
function numberIn(name: string): string {
  return /_billing_(\d{4})_/.exec(name)?.[1] ?? name;
}

function versionOf(file: string): string {
  return file.split("_")[0] ?? file;
}

async function appliedMigrations(
  sql: postgres.Sql,
): Promise<{ version: string; name: string | null }[]> {
  const [table] = await sql`
    select to_regclass('supabase_migrations.schema_migrations') is not null as is_there`;
  if (!table?.is_there) return [];
  return await sql`
    select version, name from supabase_migrations.schema_migrations`;
}

async function hasReceiver(sql: postgres.Sql): Promise<boolean> {
  const [found] = await sql`
    select to_regclass('public.billing_health') is not null as is_there`;
  return found?.is_there;
}
