import postgres from "postgres";
import type { DatabaseTls } from "./database_tls.ts";

/**
 * Connects to a project's database, through its pooler as well.
 *
 * @throws {Error} What kept it from connecting.
 */
export async function connectTo(
  { url, ssl }: DatabaseTls,
): Promise<postgres.Sql> {
  const sql = postgres(url, {
    max: 1,
    connect_timeout: 10,
    // A pooler in transaction mode keeps no prepared statement.
    prepare: false,
    ssl,
    onnotice() {},
  });
  try {
    await sql`select 1`;
    return sql;
  } catch (error) {
    await sql.end();
    throw error;
  }
}
