/**
 * Databases beside the first one, on the local stack's server.
 *
 * @module
 */
import {
  DATABASE_SQL,
  databaseUrls,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { applyMigrations } from "../../scripts/local_stack/migrations.ts";

/**
 * Supabase's default privileges before 30 October 2026, for tests: everything
 * that `postgres` creates in schema public is granted to the API's roles. Run it
 * as `postgres`, before the migrations. Since that day nothing is granted, and so
 * the local stack starts without.
 */
export const LEGACY_DEFAULT_PRIVILEGES_SQL = `
  alter default privileges for role postgres in schema public
    grant all on tables to anon, authenticated, service_role;
  alter default privileges for role postgres in schema public
    grant all on sequences to anon, authenticated, service_role;
  alter default privileges for role postgres in schema public
    grant all on functions to anon, authenticated, service_role;
`;

/** How to create a database. */
export interface NewDatabase {
  readonly name: string;
  /** Run in it first, as `postgres`. */
  readonly sqlBefore?: string | undefined;
}

/** Creates another database on the server, as empty as the first one was. */
export async function createDatabase(
  port: number,
  { name, sqlBefore }: NewDatabase,
): Promise<ReturnType<typeof databaseUrls>> {
  const urls = databaseUrls(port, name);
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    await sql`create database ${sql(name)} owner postgres`;
  });
  await withDatabase(urls.adminUrl, (sql) => sql.unsafe(DATABASE_SQL));
  if (sqlBefore) await withDatabase(urls.url, (sql) => sql.unsafe(sqlBefore));
  return urls;
}

/** Creates another database, with all migrations. */
export async function createMigratedDatabase(
  port: number,
  database: NewDatabase,
): Promise<ReturnType<typeof databaseUrls>> {
  const urls = await createDatabase(port, database);
  const cliHome = await Deno.makeTempDir({ prefix: "billing-webhook-cli-" });
  try {
    await applyMigrations(urls.url, { cliHome });
  } finally {
    await Deno.remove(cliHome, { recursive: true });
  }
  return urls;
}
