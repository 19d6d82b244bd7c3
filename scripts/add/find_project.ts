import { basename, dirname, join, relative, resolve } from "node:path";
import type { Environment } from "../common/environment.ts";
import { REPOSITORY } from "../common/how_started.ts";

/** The CLI's configuration files, the ones that win first. */
export const CONFIG_FILES = ["config.json", "config.jsonc", "config.toml"];

/**
 * Returns the folder that holds a project's `supabase` folder, without links.
 *
 * @param folder As it was typed, or the `supabase` folder itself.
 * @param env `deno task` and npm name the user's own folder in INIT_CWD.
 * @throws {Error} If there is no project of the user's.
 */
export async function findProject(
  folder: string,
  { env, cwd }: { env: Environment; cwd: string },
): Promise<string> {
  const path = resolve(env["INIT_CWD"] || cwd, folder);
  const project = await realFolder(path);
  if (project === undefined) {
    throw new Error(`Cannot add to ${path}: there is no such folder.`);
  }
  if (project === await Deno.realPath(REPOSITORY)) {
    throw new Error(
      `Cannot add to ${path}: that is the receiver itself. Name the folder of your project.`,
    );
  }
  const supabase = await realFolder(join(project, "supabase"));
  if (supabase === undefined) {
    if (basename(project) === "supabase" && await hasConfig(project)) {
      return dirname(project);
    }
    throw new Error(
      `Cannot add to ${path}: it has no supabase folder. Name the folder that holds it. If there is none yet, run "supabase init".`,
    );
  }
  if (supabase !== join(project, "supabase")) {
    const real = relative(project, dirname(supabase));
    throw new Error(
      `Cannot add to ${path}: its supabase folder is a link. Name the folder that holds the real one: ${real}`,
    );
  }
  if (!await hasConfig(supabase)) {
    throw new Error(
      `Cannot add to ${path}: supabase has no config.toml. Run "supabase init" there first.`,
    );
  }
  return project;
}

async function hasConfig(supabase: string): Promise<boolean> {
  for (const name of CONFIG_FILES) {
    const isFile = await Deno.stat(join(supabase, name))
      .then((info) => info.isFile, () => false);
    if (isFile) return true;
  }
  return false;
}

async function realFolder(path: string): Promise<string | undefined> {
  try {
    const real = await Deno.realPath(path);
    return (await Deno.stat(real)).isDirectory ? real : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
