/** The settings that the functions get on this machine, and commands sign with. */
import { join } from "node:path";
// An import by name would fail in an older Deno, before deno_version.ts does.
import * as util from "node:util";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { PROJECT } from "./how_started.ts";

export { LOCAL_SIGNING_SECRETS };

export type Environment = Readonly<Record<string, string>>;

const ENV_FILE = join(PROJECT, "supabase", "functions", ".env");

export async function readEnvFile(file = ENV_FILE): Promise<Environment> {
  try {
    // A copy, because the result has no prototype.
    return { ...util.parseEnv(await Deno.readTextFile(file)) } as Environment;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
}

/**
 * The environment wins over the file. A secret that is set to an empty text stays
 * empty, so that the user sees the receiver refuse it. Like the platform, this ignores
 * the user's names that begin with SUPABASE_.
 */
export function functionEnvironment(
  command: Environment,
  file: Environment = {},
): Environment {
  const user = { ...LOCAL_SIGNING_SECRETS, ...file, ...command };
  return Object.fromEntries(
    Object.entries(user).filter(([name]) => !name.startsWith("SUPABASE_")),
  );
}
