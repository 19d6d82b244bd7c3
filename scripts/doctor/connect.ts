import postgres from "postgres";
import { isLoopback } from "../common/loopback.ts";

/**
 * Connects to a project's database, through its pooler as well.
 *
 * @throws {Error} What kept it from connecting.
 */
export async function connectTo(databaseUrl: string): Promise<postgres.Sql> {
  const sql = postgres(databaseUrl, {
    max: 1,
    connect_timeout: 10,
    // A pooler in transaction mode keeps no prepared statement.
    prepare: false,
    ...(isLoopback(databaseUrl) ? {} : { ssl: "require" }),
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
