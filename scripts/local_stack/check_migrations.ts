import { join } from "node:path";
import { asTyped, PROJECT } from "../common/how_started.ts";
import {
  compareMigrations,
  type Migration,
  type MigrationFinding,
} from "./compare_migrations.ts";
import { withDatabase } from "./databases.ts";
import { isForLocalStack } from "./receiver_migrations.ts";

/** Where the migrations are. */
export const MIGRATIONS = join(PROJECT, "supabase", "migrations");

/**
 * Returns how the files of the migrations differ from what the database has
 * applied; undefined if they do not.
 */
export async function checkMigrations(
  dbUrl: string,
): Promise<MigrationFinding | undefined> {
  const [files, applied] = await Promise.all([
    readFiles(),
    readApplied(dbUrl),
  ]);
  return compareMigrations(files, applied);
}

/**
 * Returns whether the database has every migration of the folder. Then there is
 * nothing to do for the Supabase CLI, which takes seconds to start.
 *
 * @throws {Error} If the database was made by another version of them.
 */
export async function isMigrated(dbUrl: string): Promise<boolean> {
  const finding = await checkMigrations(dbUrl);
  if (finding?.kind !== "changed") return finding === undefined;
  throw new Error(
    `Cannot start: the local data was made by another version of the migration. Delete the data with: ${
      asTyped("reset")
    }`,
  );
}

async function readFiles(): Promise<readonly Migration[]> {
  const names = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name)
    .filter(isForLocalStack);
  return await Promise.all(
    names.sort().map(async (name) => ({
      version: name.split("_")[0]!,
      text: await Deno.readTextFile(join(MIGRATIONS, name)),
    })),
  );
}

function readApplied(dbUrl: string): Promise<readonly Migration[]> {
  return withDatabase(dbUrl, async (sql) => {
    const [table] = await sql`
      select to_regclass('supabase_migrations.schema_migrations') is not null as is_there`;
    // A new database has no list of migrations.
    if (!table?.is_there) return [];
    return await sql<Migration[]>`
      select version, coalesce(array_to_string(statements, ''), '') as text
      from supabase_migrations.schema_migrations
      order by version`;
  });
}
