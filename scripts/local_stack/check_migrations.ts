import { join } from "node:path";
import { PROJECT } from "../common/how_started.ts";
import {
  compareMigrations,
  type Migration,
  type MigrationFinding,
  parseMigrationName,
} from "./compare_migrations.ts";
import { isForLocalStack } from "./receiver_migrations.ts";
import { withDatabase } from "./databases.ts";

/** Where the migrations are. */
export const MIGRATIONS = join(PROJECT, "supabase", "migrations");

/**
 * Returns what differs between the files of the migrations and the database.
 */
export async function checkMigrations(
  dbUrl: string,
): Promise<readonly MigrationFinding[]> {
  const [files, applied] = await Promise.all([
    readFiles(),
    readApplied(dbUrl),
  ]);
  return compareMigrations(files, applied);
}

/**
 * Returns whether the database has every migration of the folder, and no other.
 * Then there is nothing to do for the Supabase CLI, which takes seconds to
 * start.
 */
export async function isMigrated(dbUrl: string): Promise<boolean> {
  try {
    const findings = await checkMigrations(dbUrl);
    return findings.every(({ kind }) => kind === "changed");
  } catch {
    return false; // a new database has no list of migrations
  }
}

/**
 * Returns why migrations cannot be applied. If the database has one whose file
 * is gone, the Supabase CLI says how to repair a remote project. If one changed
 * since it was applied, a later one may fail for that reason.
 */
export async function explainMigrationFault(
  fault: Error,
  dbUrl: string,
): Promise<Error> {
  const findings = await checkMigrations(dbUrl).catch(() => []);
  const texts = (wanted: MigrationFinding["kind"]) =>
    findings.filter(({ kind }) => kind === wanted)
      .map(({ text }) => `  Migration ${text}`);
  const missing = texts("missing");
  return new Error(
    missing.length > 0
      ? ["Cannot apply the migrations:", ...missing].join("\n")
      : [fault.message, ...texts("changed")].join("\n"),
  );
}

async function readFiles(): Promise<readonly Migration[]> {
  const names = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name)
    .filter(isForLocalStack);
  const files = await Promise.all(
    names.sort().map(async (file) => {
      const parsed = parseMigrationName(file);
      if (parsed === undefined) return [];
      const text = await Deno.readTextFile(join(MIGRATIONS, file));
      return [{ ...parsed, text }];
    }),
  );
  return files.flat();
}

function readApplied(dbUrl: string): Promise<readonly Migration[]> {
  return withDatabase(dbUrl, async (sql) =>
    await sql<Migration[]>`
      select version, coalesce(name, '') as name,
        array_to_string(statements, '') as text
      from supabase_migrations.schema_migrations
      order by version`);
}
