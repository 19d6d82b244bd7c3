/**
 * How this command was started: in a clone by `deno task`, or from the npm package,
 * whose program sets BILLING_COMMAND to what the user typed before the command.
 */
import { fileURLToPath } from "node:url";

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
