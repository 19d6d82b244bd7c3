/**
 * Which settings the functions get on this machine, and from where. `start`
 * serves with them, `trigger` signs with the same secrets.
 */
import { parseEnv } from "node:util";

/** Names and values, as in a process's environment. */
export type Environment = Record<string, string>;

/** The secrets in use where nothing else is set, so that a fresh clone works. */
export const LOCAL_SIGNING_SECRETS = {
  PROVIDER_A_SIGNING_SECRET: "whsec_local_provider_a_0123456789",
  PROVIDER_B_SIGNING_SECRET: "local_provider_b_0123456789",
} as const;

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
