/**
 * Which settings the functions get on this machine, and from where. `start`
 * serves with them, `trigger` signs with the same secrets.
 */
import { parseEnv } from "node:util";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/billing-webhook/local_stack.ts";

export { LOCAL_SIGNING_SECRETS };

/** Names and values, as in a process's environment. */
export type Environment = Record<string, string>;

const ENV_FILE = new URL("../../supabase/functions/.env", import.meta.url);

/**
 * Reads `supabase/functions/.env`, or another file of that form.
 *
 * @returns its names and values; nothing where there is no such file
 * @throws where the file is there and cannot be read
 */
export async function readEnvFile(
  file: string | URL = ENV_FILE,
): Promise<Environment> {
  try {
    // The copy leaves out parseEnv's "undefined" from the type, and its
    // prototype-less object.
    return Object.fromEntries(
      Object.entries(parseEnv(await Deno.readTextFile(file))),
    ) as Environment;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
}

/**
 * The user's settings for the functions. The command's own environment wins
 * over the file, and both over the local secrets, which stand in only for what
 * is not set at all: a secret that is set to nothing stays so, because that is
 * a mistake the receiver must be seen to refuse. Names that begin with
 * SUPABASE_ belong to the platform, which skips the user's, and so does this.
 *
 * @param command the environment of the command that was typed
 * @param file what `readEnvFile()` found
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
