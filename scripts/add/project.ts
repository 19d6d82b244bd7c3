/**
 * What a project has where the receiver's files go.
 *
 * @module
 */
import { join } from "node:path";
import { createCommand } from "../common/create_command.ts";
import type { ConfigFile } from "./config_sections.ts";
import { CONFIG_FILES } from "./find_project.ts";
import { MANIFEST, type Manifest, parseManifest } from "./manifest.ts";
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
  return {
    files,
    obstacles,
    migrationFiles: obstacles.has("migrations/x.sql")
      ? []
      : await namesIn(join(supabase, "migrations")),
    manifest,
    config: config ?? { name: "config.toml", text: "" },
    ignoresEnv: await gitIgnores(supabase, "functions/.env"),
  };
}

/** Nothing is written through links, which may lead out of the project. */
async function obstacleAt(
  supabase: string,
  path: string,
): Promise<string | undefined> {
  const parts = path.split("/");
  for (let length = 1; length <= parts.length; length++) {
    const part = parts.slice(0, length).join("/");
    const info = await infoOf(join(supabase, part));
    if (info === undefined) return undefined;
    if (info.isSymlink) return `supabase/${part} is a symbolic link`;
    const isLast = length === parts.length;
    if (isLast && !info.isFile) return `supabase/${part} is not a file`;
    if (!isLast && !info.isDirectory) return `supabase/${part} is not a folder`;
  }
  return undefined;
}

async function infoOf(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** A byte order mark is kept: the text is written back as it is. */
const UTF8 = { fatal: true, ignoreBOM: true } as const;

async function readText(path: string): Promise<string | undefined> {
  try {
    return new TextDecoder("utf-8", UTF8).decode(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`Cannot read ${path}: it is not text in UTF-8.`);
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    return entries.map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
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
