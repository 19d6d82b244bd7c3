import type { Environment } from "./environment.ts";

/**
 * Returns the secrets with which a command uses the local stack, if no URL names
 * a project. Others in the environment belong to another project, and must not be
 * sent to a port of this machine.
 *
 * @param own The local stack's, by the names of the variables.
 * @param here.warn Receives a warning for each that is not used.
 */
export function localSecrets(
  own: Environment,
  { env, warn }: { env: Environment; warn: (text: string) => void },
): Environment {
  for (const [name, secret] of Object.entries(own)) {
    if (env[name] && env[name] !== secret) {
      warn(
        `${name} is not used with the local stack. For another project, set SUPABASE_URL.`,
      );
    }
  }
  return own;
}
