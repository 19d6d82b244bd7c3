import postgres from "postgres";
import { DATABASE_SQL, LOCAL_PASSWORD, ROLES_SQL } from "./roles.ts";

/** Returns a local database's URLs: for the superuser, and for `postgres`. */
export function databaseUrls(port: number, name = "postgres") {
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
