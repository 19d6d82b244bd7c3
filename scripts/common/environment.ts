/**
 * How this command was started: in a clone by `deno task`, or from the npm package,
 * whose program sets BILLING_COMMAND to what the user typed before the command; and the
 * settings that the functions get on this machine, and commands sign with.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
// An import by name would fail in an older Deno, before deno_version.ts does.
import * as util from "node:util";
import { LOCAL_SIGNING_SECRETS } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";

/** The clone or the unpacked package, without a slash at its end. */
export const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url))
  .replace(/\/$/, "");

const PACKAGE_COMMAND = Deno.env.get("BILLING_COMMAND");

/** Then the user is in their own project. */
export const isFromPackage = PACKAGE_COMMAND !== undefined;

/** The folder that contains the `supabase` folder of the commands. */
export const PROJECT = isFromPackage ? Deno.cwd() : REPOSITORY;

const TASK = Deno.env.get("npm_command") === "exec"
  ? `npx -y deno@${Deno.version.deno} task`
  : "deno task";

export function asTyped(command: string): string {
  return `${PACKAGE_COMMAND ?? TASK} ${command}`;
}

export { LOCAL_SIGNING_SECRETS };

export type Environment = Readonly<Record<string, string>>;

export async function readEnvFile(
  file = join(PROJECT, "supabase", "functions", ".env"),
): Promise<Environment> {
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
