import { join } from "node:path";
import importMap from "../../import_map.json" with { type: "json" };
import type { Environment } from "./environment.ts";
import { NODE_MODULES, REPOSITORY } from "./how_started.ts";
import { runTool } from "./run_tool.ts";
import { toolEnvironment } from "./create_command.ts";

const PACKAGE = "@supabase/cli-linux-x64";
const PACKAGED = join(NODE_MODULES, PACKAGE, "bin", "supabase");

/** The version of the Supabase CLI that this project is tested with. */
export const SUPABASE_CLI_VERSION = importMap.imports[PACKAGE].split("@").at(
  -1,
)!;

/**
 * Returns the command that runs the Supabase CLI. On Linux for x64 that is the
 * program from its npm package. Elsewhere Deno fetches the same version from
 * npm: `deno.lock` cannot name that package, because Deno requires the programs
 * for all platforms, and not every registry has them.
 */
export function supabaseCli(
  { os, arch }: Pick<typeof Deno.build, "os" | "arch"> = Deno.build,
): { readonly command: string; readonly args: readonly string[] } {
  if (os === "linux" && arch === "x86_64") {
    return { command: PACKAGED, args: [] };
  }
  return {
    command: Deno.execPath(),
    args: [
      "run",
      "--allow-all",
      "--quiet",
      "--no-config",
      "--no-lock",
      "--node-modules-dir=none",
      `npm:supabase@${SUPABASE_CLI_VERSION}`,
    ],
  };
}

/** How to run a command of the Supabase CLI. */
export interface SupabaseCliOptions {
  /** What it is for, to follow "Cannot ". */
  readonly purpose: string;
  /** A folder for the CLI's own files. */
  readonly home: string;
  /** The folder that holds `supabase`, if not the repository. */
  readonly cwd?: string;
  readonly env?: Environment;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs a command of the Supabase CLI to its end.
 *
 * @returns what it printed on standard output
 * @throws {Error} with the CLI's output, if it fails
 */
export async function runSupabaseCli(
  args: readonly string[],
  { purpose, home, cwd = REPOSITORY, env = {}, signal }: SupabaseCliOptions,
): Promise<string> {
  const cli = supabaseCli();
  return await runTool({
    purpose,
    command: cli.command,
    args: [...cli.args, ...args, "--agent", "no"],
    env: {
      ...toolEnvironment(),
      SUPABASE_HOME: home,
      SUPABASE_TELEMETRY_DISABLED: "1",
      SUPABASE_NO_UPDATE_NOTIFIER: "1",
      DO_NOT_TRACK: "1",
      ...env,
    },
    cwd,
  }, signal);
}
