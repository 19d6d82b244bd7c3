import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runTool } from "./run_tool.ts";
import { toolEnvironment } from "./tool_environment.ts";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Applies the migrations that a database has not had yet, with the Supabase
 * CLI itself, as the role `postgres`.
 *
 * @param databaseUrl the database, with user and password
 * @param options.cliHome a folder for what the CLI writes down for itself
 * @throws with the CLI's output, where one does not apply
 */
export async function applyMigrations(
  databaseUrl: string,
  options: { cliHome: string; signal?: AbortSignal | undefined },
): Promise<void> {
  await runTool({
    purpose: "apply the migrations",
    command: await findSupabaseCli(),
    args: [
      "migration",
      "up",
      // One that is older than the last applied, from another branch, too.
      "--include-all",
      "--db-url",
      `${databaseUrl}?sslmode=disable`,
      "--agent",
      "no",
    ],
    env: {
      ...toolEnvironment(),
      SUPABASE_HOME: options.cliHome,
      SUPABASE_TELEMETRY_DISABLED: "1",
      SUPABASE_NO_UPDATE_NOTIFIER: "1",
      DO_NOT_TRACK: "1",
    },
    cwd: REPOSITORY,
  }, options.signal);
}

// The package's own launcher is a script for Node, which may not be there.
async function findSupabaseCli(): Promise<string> {
  const cpu = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  const name = `@supabase/cli-${Deno.build.os}-${cpu}`;
  try {
    const parent = await Deno.realPath(
      join(REPOSITORY, "node_modules", "supabase", "package.json"),
    );
    const manifest = createRequire(parent).resolve(`${name}/package.json`);
    return join(dirname(manifest), "bin", "supabase");
  } catch (cause) {
    throw new Error(
      `Cannot apply the migrations: the package ${name} is not there. Run "deno install".`,
      { cause },
    );
  }
}
