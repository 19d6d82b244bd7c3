import { REPOSITORY } from "../../scripts/common/how_started.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { runSupabaseCli } from "../../scripts/common/supabase_cli.ts";
import { CLI_ENVIRONMENT } from "./cli_environment.ts";

const MIGRATIONS = `${REPOSITORY}/supabase/migrations`;

/** The names of the migrations' files, in order. */
export function migrationNames(): string[] {
  return [...Deno.readDirSync(MIGRATIONS)].map(({ name }) => name).sort();
}

/** A migration's version: the number that its file's name begins with. */
export function migrationVersions(): string[] {
  return migrationNames().map((name) => name.split("_")[0] ?? "");
}

/** Applies this repository's migrations to a database. */
export function migrate(databaseUrl: string): Promise<void> {
  return migrateFrom(REPOSITORY, databaseUrl);
}

/**
 * Applies the migrations of a project's folder as the Supabase CLI does, without
 * the seconds that it takes to start.
 *
 * @throws {Error} If the CLI would refuse: a migration that is applied has no
 * file, or one that is not applied comes before one that is.
 */
export async function migrateFrom(
  folder: string,
  databaseUrl: string,
): Promise<void> {
  const migrations = `${folder}/supabase/migrations`;
  const names = [...Deno.readDirSync(migrations)].map(({ name }) => name);
  const files = new Map(
    names.sort().map((name) => [name.split("_")[0]!, name]),
  );
  await withDatabase(databaseUrl, async (sql) => {
    await sql.unsafe(LIST_SQL).simple();
    const applied = (await sql`
      select version from supabase_migrations.schema_migrations order by 1`)
      .map(({ version }) => String(version));
    const unknown = applied.filter((version) => !files.has(version));
    const waiting = [...files.keys()].filter((it) => !applied.includes(it));
    const late = waiting.filter((it) => it < (applied.at(-1) ?? ""));
    if (unknown.length + late.length > 0) {
      throw new Error(`Without files: ${unknown}. Too late: ${late}`);
    }
    for (const version of waiting) {
      const text = await Deno.readTextFile(
        `${migrations}/${files.get(version)}`,
      );
      const name = files.get(version)!.slice(
        version.length + 1,
        -".sql".length,
      );
      await sql.begin(async (tx) => {
        await tx.unsafe(text).simple();
        await tx`
          insert into supabase_migrations.schema_migrations
          values (${version}, ${[text]}, ${name})`;
      });
    }
  });
}

/** The CLI's own list of what is applied. */
const LIST_SQL = `
  create schema if not exists supabase_migrations;
  create table if not exists supabase_migrations.schema_migrations (
    version text not null primary key, statements text[], name text
  );`;

/** Applies the migrations of a project's folder with the Supabase CLI itself. */
export async function migrateByCli(
  folder: string,
  databaseUrl: string,
): Promise<void> {
  await runSupabaseCli([
    "migration",
    "up",
    `--remote=${databaseUrl}?sslmode=disable`,
    "--yes",
  ], {
    purpose: "apply the migrations",
    home: folder,
    cwd: folder,
    env: CLI_ENVIRONMENT,
  });
}
