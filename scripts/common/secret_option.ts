import type { Environment } from "./environment.ts";

/** A secret that a command takes from the environment, or from an option. */
export interface SecretOption {
  /** The option's name, without dashes. */
  readonly option: string;
  readonly value: string | undefined;
  readonly variable: string;
}

/**
 * Returns a secret: the option's value, else the variable's; undefined if
 * neither is set. The option still works, with a warning, because every user
 * of the machine sees it in the list of processes, and `deno task` prints it.
 *
 * @param warn Receives the warning, which does not repeat the secret.
 */
export function readSecret(
  { option, value, variable }: SecretOption,
  { env, warn }: { env: Environment; warn: (text: string) => void },
): string | undefined {
  if (value === undefined) return env[variable] || undefined;
  warn(
    `--${option} shows the secret to other users of this machine, in logs and in the shell's history. Set ${variable} instead: read -rs ${variable} && export ${variable}`,
  );
  return value;
}
