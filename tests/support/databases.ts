import { REPOSITORY } from "../../scripts/common/environment.ts";
import {
  DATABASE_SQL,
  databaseUrls,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import {
  applyMigration,
  readApplied,
  readMigrations,
} from "../../scripts/local_stack/migrations.ts";

/**
 * Returns the SQL after which a database, in later connections, gives itself out as
 * version 14.9 or such of Postgres to all that do not say where `current_setting` is.
 */
export function pretendVersion(database: string, major: number): string {
  return `
    create schema pretended;
    create function pretended.current_setting(name text) returns text
    language sql stable
    return case name
      when 'server_version' then '${major}.9'
      when 'server_version_num' then '${major}0009'
      else pg_catalog.current_setting(name)
    end;
    alter role postgres in database ${database}
      set search_path = pretended, pg_catalog, public, extensions;`;
}

export async function createDatabase(
  port: number,
  { name, sqlBefore }: { name: string; sqlBefore?: string | undefined },
): Promise<ReturnType<typeof databaseUrls>> {
  const urls = databaseUrls(port, name);
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    await sql`create database ${sql(name)} owner postgres`;
  });
  await withDatabase(urls.adminUrl, (sql) => sql.unsafe(DATABASE_SQL));
  if (sqlBefore) await withDatabase(urls.url, (sql) => sql.unsafe(sqlBefore));
  return urls;
}

export async function createMigratedDatabase(
  ...options: Parameters<typeof createDatabase>
): ReturnType<typeof createDatabase> {
  const urls = await createDatabase(...options);
  await migrate(urls.url);
  return urls;
}

/**
 * Applies a project's migrations as the Supabase CLI does, without the seconds
 * that it takes to start.
 *
 * @throws {Error} If the CLI would refuse: a migration that is applied has no
 * file, or one that is not applied comes before one that is.
 */
export async function migrate(
  databaseUrl: string,
  project: string = REPOSITORY,
): Promise<void> {
  const migrations = readMigrations(project);
  const versions = migrations.map(({ version }) => version);
  await withDatabase(databaseUrl, async (sql) => {
    const applied = [...(await readApplied(sql)).keys()].sort();
    const unknown = applied.filter((version) => !versions.includes(version));
    const waiting = migrations.filter((it) => !applied.includes(it.version));
    const late = waiting.filter((it) => it.version < (applied.at(-1) ?? ""));
    if (unknown.length + late.length > 0) {
      throw new Error(
        `Without files: ${unknown}. Too late: ${late.map(({ file }) => file)}`,
      );
    }
    for (const migration of waiting) await applyMigration(sql, migration);
  });
}
