import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Environment } from "../../scripts/stack/environment.ts";
import { runTool } from "../../scripts/stack/run_tool.ts";
import { toolEnvironment } from "../../scripts/stack/tool_environment.ts";

/** The repository, without a slash at its end. */
export const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url))
  .replace(/\/$/, "");

/**
 * Runs the project's own Supabase CLI by the launcher that npm's users have,
 * which needs Node.
 *
 * @param args Such as `["migration", "up"]`.
 * @param options.home A folder for what the CLI writes down for itself.
 * @throws {Error} With the CLI's output, where it fails.
 */
export async function runSupabaseCli(
  args: string[],
  { home, env = {} }: { home: string; env?: Environment },
): Promise<void> {
  await runTool({
    purpose: `run "supabase ${args.slice(0, 2).join(" ")}"`,
    command: join(REPOSITORY, "node_modules", ".bin", "supabase"),
    args,
    env: {
      ...toolEnvironment(),
      SUPABASE_HOME: home,
      SUPABASE_TELEMETRY_DISABLED: "1",
      SUPABASE_NO_UPDATE_NOTIFIER: "1",
      DO_NOT_TRACK: "1",
      ...env,
    },
    cwd: REPOSITORY,
  });
}
