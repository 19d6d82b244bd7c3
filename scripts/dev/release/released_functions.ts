/**
 * The functions of the last published version, below tests/released/functions:
 * the gate serves them beside this version's.
 *
 * @module
 */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { COPIED_FOLDERS } from "../../add/receiver.ts";
import { REPOSITORY } from "../../common/how_started.ts";

/** Relative to the repository, as `supabase/functions` is. */
export const RELEASED_FUNCTIONS = "tests/released/functions";

const VERSION_FILE = join(REPOSITORY, RELEASED_FUNCTIONS, "version.txt");

/** Returns the options with which Deno finds the packages of a function. */
export function releasedOptions(name: string): string[] {
  const map = `${RELEASED_FUNCTIONS}/${name}/deno.json`;
  return [
    "--no-config",
    "--no-lock",
    "--node-modules-dir=none",
    `--import-map=${map}`,
  ];
}

/** Returns the version of the functions. */
export async function readKeptVersion(): Promise<string> {
  return (await Deno.readTextFile(VERSION_FILE)).trim();
}

/** Replaces the functions by those of this version. */
export async function keepFunctions(version: string): Promise<void> {
  const target = join(REPOSITORY, RELEASED_FUNCTIONS);
  await Deno.remove(target, { recursive: true });
  for (const folder of COPIED_FOLDERS) {
    const [, name] = folder.split("functions/");
    if (name === undefined) continue;
    await cp(join(REPOSITORY, "supabase", folder), join(target, name), {
      recursive: true,
    });
  }
  await Deno.writeTextFile(VERSION_FILE, `${version}\n`);
}
