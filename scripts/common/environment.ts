/**
 * The settings that the functions get on this machine. `start` serves the
 * functions with them, and `trigger` signs with the same secrets.
 */
import { join } from "node:path";
import { parseEnv } from "node:util";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { PROJECT } from "./how_started.ts";

export { LOCAL_SIGNING_SECRETS };

/** Names and values, as in a process's environment. */
export type Environment = Readonly<Record<string, string>>;

const ENV_FILE = join(PROJECT, "supabase", "functions", ".env");

/**
 * Reads `supabase/functions/.env`, or another file of that format.
 *
 * @returns its names and values; none if there is no such file
 * @throws if the file exists and cannot be read
 */
export async function readEnvFile(
  file: string | URL = ENV_FILE,
): Promise<Environment> {
  try {
    // A copy, because parseEnv's result has no prototype, and its type has
    // undefined values.
    return Object.fromEntries(
      Object.entries(parseEnv(await Deno.readTextFile(file))),
    ) as Environment;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
}

/**
 * Returns the user's settings for the functions. The environment wins over the
 * file, and both win over the local secrets, which are only for names that are
 * not set at all: a secret that is set to nothing stays empty, so that the user
 * sees the receiver refuse it. Like the platform, this ignores the user's names
 * that begin with SUPABASE_.
 *
 * @param command the environment of the command
 * @param file what `readEnvFile()` returned
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
