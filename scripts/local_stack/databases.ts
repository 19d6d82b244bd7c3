import postgres from "postgres";
import { DATABASE_SQL, LOCAL_PASSWORD, ROLES_SQL } from "./roles.ts";

/** A database's connection strings: for the superuser, and for `postgres`. */
export interface DatabaseUrls {
  readonly adminUrl: string;
  readonly url: string;
}

/** Returns the connection strings of a database on the local server. */
export function databaseUrls(port: number, name = "postgres"): DatabaseUrls {
  const rest = `${LOCAL_PASSWORD}@127.0.0.1:${port}/${name}`;
  return {
    adminUrl: `postgresql://supabase_admin:${rest}`,
    url: `postgresql://postgres:${rest}`,
  };
}

/** Creates Supabase's roles on the server, unless it has them already. */
export async function setUpServer(port: number): Promise<void> {
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    const found = await sql`
      select from pg_roles where rolname = 'authenticator'`;
    if (found.length > 0) return;
    // In one transaction, so that a server has all of it or nothing.
    await sql.unsafe(`begin; ${ROLES_SQL} ${DATABASE_SQL} commit`);
  });
}

/**
 * Creates another database on the server, as empty as the first one was.
 *
 * @param options.sqlBefore run in it first, as `postgres`
 */
export async function createDatabase(
  port: number,
  { name, sqlBefore }: {
    readonly name: string;
    readonly sqlBefore?: string | undefined;
  },
): Promise<DatabaseUrls> {
  const urls = databaseUrls(port, name);
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    await sql`create database ${sql(name)} owner postgres`;
  });
  await withDatabase(urls.adminUrl, (sql) => sql.unsafe(DATABASE_SQL));
  if (sqlBefore) await withDatabase(urls.url, (sql) => sql.unsafe(sqlBefore));
  return urls;
}

/** Connects to a database, and disconnects after the use. */
export async function withDatabase<T>(
  url: string,
  use: (sql: postgres.Sql) => Promise<T>,
): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    return await use(sql);
  } finally {
    await sql.end();
  }
}
