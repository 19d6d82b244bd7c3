/**
 * `deno task types`: generates the functions' types of the database from the
 * running local stack, or from `--db-url`.
 *
 * @module
 */
import { join } from "node:path";
import {
  type CommandLine,
  parseCommandLine,
  reportEnd,
} from "../common/cli.ts";
import { isLoopback } from "../common/loopback.ts";
import { findRunningStack } from "../common/running_stack.ts";
import { runTool } from "../common/run_tool.ts";
import { checkMigrations } from "../local_stack/migrations.ts";
import { runSupabaseCli } from "../common/supabase_cli.ts";
import { toolEnvironment } from "../common/create_command.ts";

/** The file that is written. */
export const TYPES_FILE = new URL(
  "../../supabase/functions/_shared/billing/database.types.ts",
  import.meta.url,
);

const COMMAND_LINE = {
  usage: "types",
  summary: "Generates the functions' types of the database.",
  options: {
    "--db-url URL": "a migrated database (default: the local stack's)",
  },
} as const satisfies CommandLine;

if (import.meta.main) {
  Deno.exit(
    await writeTypes(Deno.args).catch((error) =>
      // The output of the tools has several lines.
      reportEnd(error, { err: console.error })
    ),
  );
}

async function writeTypes(args: readonly string[]): Promise<number> {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  const types = await generateTypes(values["db-url"] ?? await localDatabase());
  await Deno.writeTextFile(TYPES_FILE, types);
  console.log(`Wrote ${TYPES_FILE.pathname}`);
  return 0;
}

/**
 * Returns the URL of the local stack's database.
 *
 * @throws {Error} If no stack runs, or if it has not applied all migrations:
 * what is generated would lack them.
 */
async function localDatabase(): Promise<string> {
  const stack = await findRunningStack(Deno.env.toObject());
  if (stack === undefined) {
    throw new Error("No local stack runs. Start it with: deno task start");
  }
  const finding = await checkMigrations(stack.dbUrl);
  if (finding !== undefined) {
    throw new Error(`Nothing was written: ${finding.text}`);
  }
  return stack.dbUrl;
}

/**
 * Returns the types of a database's schema public, made by the Supabase CLI and
 * formatted.
 *
 * @param databaseUrl With user and password. A local database is reached
 * without TLS, which the local Postgres does not have.
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
