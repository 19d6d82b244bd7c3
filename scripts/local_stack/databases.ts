import postgres from "postgres";
import { runSupabaseCli } from "../common/supabase_cli.ts";
import { DATABASE_SQL, LOCAL_PASSWORD, ROLES_SQL } from "./roles.ts";

/** A database's addresses: for the superuser, and for `postgres`. */
export type DatabaseUrls = { adminUrl: string; url: string };

/** The addresses of a database of the local server. */
export function databaseUrls(port: number, name = "postgres"): DatabaseUrls {
  const rest = `${LOCAL_PASSWORD}@127.0.0.1:${port}/${name}`;
  return {
    adminUrl: `postgresql://supabase_admin:${rest}`,
    url: `postgresql://postgres:${rest}`,
  };
}

/** Gives a new server Supabase's roles; one that has them stays as it is. */
export async function setUpServer(port: number): Promise<void> {
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    const found = await sql`
      select from pg_roles where rolname = 'authenticator'`;
    if (found.length > 0) return;
    // One transaction, so that a server has all of it or nothing.
    await sql.unsafe(`begin; ${ROLES_SQL} ${DATABASE_SQL} commit`);
  });
}

/**
 * Makes another database on the server, as the first one was at the start.
 *
 * @param options.sqlBefore run in it as `postgres`, before anything else is
 *   there
 */
export async function createDatabase(
  port: number,
  options: { name: string; sqlBefore?: string | undefined },
): Promise<DatabaseUrls> {
  const { name, sqlBefore } = options;
  const urls = databaseUrls(port, name);
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    await sql`create database ${sql(name)} owner postgres`;
  });
  await withDatabase(urls.adminUrl, (sql) => sql.unsafe(DATABASE_SQL));
  if (sqlBefore) await withDatabase(urls.url, (sql) => sql.unsafe(sqlBefore));
  return urls;
}

/**
 * Applies the migrations that a database has not had yet, with the Supabase
 * CLI itself, as the role `postgres`.
 *
 * @param databaseUrl the database, with user and password
 * @param options.cliHome a folder for what the CLI writes down for itself
 * @throws with the CLI's output, if one does not apply
 */
export async function applyMigrations(
  databaseUrl: string,
  options: { cliHome: string; signal?: AbortSignal | undefined },
): Promise<void> {
  await runSupabaseCli([
    "migration",
    "up",
    // One that is older than the last applied, from another branch, too.
    "--include-all",
    `--remote=${databaseUrl}?sslmode=disable`,
    "--yes",
  ], {
    purpose: "apply the migrations",
    home: options.cliHome,
    signal: options.signal,
  });
}

async function withDatabase(
  url: string,
  use: (sql: postgres.Sql) => Promise<unknown>,
): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    await use(sql);
  } finally {
    await sql.end();
  }
}
