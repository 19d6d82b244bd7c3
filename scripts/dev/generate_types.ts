/**
 * `deno task types`: writes the functions' types of the database anew, from
 * the running local stack, or from `--db-url`.
 *
 * @module
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { isLoopback } from "../common/loopback.ts";
import { databaseUrls } from "../local_stack/databases.ts";
import { runTool } from "../common/run_tool.ts";
import { runSupabaseCli } from "../common/supabase_cli.ts";
import { toolEnvironment } from "../common/create_command.ts";

/** The file that is written. */
export const TYPES_FILE = new URL(
  "../../supabase/functions/_shared/billing/database.types.ts",
  import.meta.url,
);

const STANDARD_DB_PORT = 54322;

if (import.meta.main) {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: { "db-url": { type: "string" } },
    });
    const url = values["db-url"] ?? databaseUrls(STANDARD_DB_PORT).url;
    await Deno.writeTextFile(TYPES_FILE, await generateTypes(url));
    console.log(`Wrote ${TYPES_FILE.pathname}`);
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}

/**
 * Makes the types of a database's schema public with the Supabase CLI, and
 * formats them.
 *
 * @param databaseUrl With user and password. On this machine it is reached
 * without TLS, which the local Postgres has not.
 * @throws {Error} If the database does not answer.
 */
export async function generateTypes(databaseUrl: string): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-types-" });
  try {
    const text = await runSupabaseCli([
      "gen",
      "types",
      "--schema",
      "public",
      `--remote=${withoutLocalTls(databaseUrl)}`,
    ], { purpose: "make the types of the database", home: folder });
    // In a file: text on standard input is formatted once, a file until it stays.
    const file = join(folder, "database.types.ts");
    await Deno.writeTextFile(file, text);
    await runTool({
      purpose: "format the types of the database",
      command: Deno.execPath(),
      args: ["fmt", "--no-config", "--quiet", file],
      env: toolEnvironment(),
      cwd: folder,
    });
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function withoutLocalTls(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (isLoopback(databaseUrl)) url.searchParams.set("sslmode", "disable");
  return url.href;
}
