/**
 * What a project has where the receiver's files go.
 *
 * @module
 */
import { join } from "node:path";
import { createCommand } from "../common/create_command.ts";
import type { ConfigFile } from "./config_file.ts";
import { CONFIG_FILES } from "./find_project.ts";
import { MANIFEST, type Manifest, parseManifest } from "./manifest.ts";
import { namesIn, obstacleAt, readText } from "./read_files.ts";
import type { Receiver } from "./receiver.ts";

/** The path of the file that keeps secrets out of git, below `supabase/`. */
export const GITIGNORE = ".gitignore";

/** A project, as it was read. */
export interface Project {
  /** Texts by path below `supabase/`: of the receiver's files, and of others. */
  readonly files: ReadonlyMap<string, string>;
  /** Why a file cannot be written, by its path. */
  readonly obstacles: ReadonlyMap<string, string>;
  /** The names of the files in `supabase/migrations`. */
  readonly migrationFiles: readonly string[];
  /** The texts of those, by name, in order. */
  readonly migrationTexts: ReadonlyMap<string, string>;
  readonly manifest: Manifest;
  readonly config: ConfigFile;
  /** Whether git ignores `supabase/functions/.env`. */
  readonly ignoresEnv: boolean;
}

/**
 * Reads a project.
 *
 * @param folder What `findProject()` returned.
 * @throws {Error} If a file cannot be read as text, or the manifest is broken.
 */
export async function readProject(
  folder: string,
  receiver: Receiver,
): Promise<Project> {
  const supabase = join(folder, "supabase");
  const files = new Map<string, string>();
  const obstacles = new Map<string, string>();
  async function read(path: string): Promise<string | undefined> {
    const obstacle = await obstacleAt(supabase, path);
    if (obstacle !== undefined) obstacles.set(path, obstacle);
    const text = obstacle ?? await readText(join(supabase, path));
    if (obstacle === undefined && text !== undefined) files.set(path, text);
    return files.get(path);
  }
  const manifest = parseManifest(await read(MANIFEST));
  const paths = new Set([
    ...receiver.files.keys(),
    ...Object.keys(manifest.files),
    GITIGNORE,
  ]);
  for (const path of paths) await read(path);
  let config: ConfigFile | undefined;
  for (const name of CONFIG_FILES) {
    const text = config === undefined ? await read(name) : undefined;
    if (text !== undefined) config = { name, text };
  }
  await read("migrations/x.sql"); // whether new files can go there
  const migrations = join(supabase, "migrations");
  const migrationFiles = obstacles.has("migrations/x.sql")
    ? []
    : await namesIn(migrations);
  return {
    files,
    obstacles,
    migrationFiles,
    migrationTexts: await textsOf(migrations, migrationFiles),
    manifest,
    config: config ?? { name: "config.toml", text: "" },
    ignoresEnv: await gitIgnores(supabase, "functions/.env"),
  };
}

/** What cannot be read, such as a folder, is not a migration either. */
async function textsOf(
  folder: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for (const name of names.filter((name) => name.endsWith(".sql"))) {
    const text = await Deno.readTextFile(join(folder, name)).catch(() => "");
    texts.set(name, text);
  }
  return texts;
}

/** False if git says no, and also if git or a repository is missing. */
async function gitIgnores(folder: string, path: string): Promise<boolean> {
  try {
    const { code } = await createCommand("git", {
      args: ["check-ignore", "--quiet", "--no-index", path],
      cwd: folder,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).output();
    return code === 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
