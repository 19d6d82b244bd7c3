/**
 * The functions of the last published version, below tests/released/functions:
 * the gate serves them beside this version's.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { COPIED_FOLDERS } from "../../add/receiver.ts";
import { toolEnvironment } from "../../common/create_command.ts";
import { REPOSITORY } from "../../common/how_started.ts";
import { runTool } from "../../common/run_tool.ts";

/** Relative to the repository, as `supabase/functions` is. */
export const RELEASED_FUNCTIONS = "tests/released/functions";

const VERSION_FILE = `${RELEASED_FUNCTIONS}/version.txt`;
const SOURCES = "supabase/functions/";

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
  return (await Deno.readTextFile(join(REPOSITORY, VERSION_FILE))).trim();
}

/**
 * Replaces the functions by those of a version, as its tag has them. Without
 * their lock files: the tests serve them without.
 *
 * @throws {Error} If there is no such tag. Nothing is changed then.
 */
export async function keepFunctions(
  version: string,
  repository = REPOSITORY,
): Promise<void> {
  const git = (...args: string[]) =>
    runTool({
      purpose: `read the functions of v${version}`,
      command: "git",
      args,
      env: toolEnvironment(),
      cwd: repository,
    });
  const folders = COPIED_FOLDERS.map((folder) => `supabase/${folder}`)
    .filter((folder) => folder.startsWith(SOURCES));
  const tag = `refs/tags/v${version}`;
  const listed = await git("ls-tree", "-r", "--name-only", tag, ...folders);
  const texts = new Map<string, string>();
  for (const path of listed.trim().split("\n")) {
    if (path.endsWith("/deno.lock")) continue;
    texts.set(path.slice(SOURCES.length), await git("show", `${tag}:${path}`));
  }
  const target = join(repository, RELEASED_FUNCTIONS);
  await Deno.remove(target, { recursive: true });
  for (const [path, text] of texts) {
    await Deno.mkdir(dirname(join(target, path)), { recursive: true });
    await Deno.writeTextFile(join(target, path), text);
  }
  await Deno.writeTextFile(join(repository, VERSION_FILE), `${version}\n`);
}
