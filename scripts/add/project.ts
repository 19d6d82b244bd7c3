/**
 * A project of the user's, and what it has where the receiver's files go.
 *
 * @module
 */
import { basename, dirname, join, resolve } from "node:path";
import { REPOSITORY } from "../common/how_started.ts";
import { type Config, readConfig, valueAt } from "./config.ts";
import { readFolder, readText } from "./files.ts";
import { MANIFEST, type Manifest, parseManifest } from "./manifest.ts";

/** The CLI's configuration files, the one that wins first. */
const CONFIG_FILES = ["config.json", "config.jsonc", "config.toml"];

/** A project, as it was read. */
export interface Project {
  /** Its `supabase` folder. */
  readonly supabase: string;
  readonly config: Config;
  readonly manifest: Manifest;
  /** The texts of its migrations and declarative schemas, by path. */
  readonly sql: ReadonlyMap<string, string>;
  /** Where its declarative schemas are, below `supabase/`; undefined without any. */
  readonly schemas: string | undefined;
  /** What the user has to change so that the CLI reads them. */
  readonly todo: readonly string[];
}

/**
 * Returns the folder that holds a project's `supabase` folder, without links.
 *
 * @param folder As it was typed, or the `supabase` folder itself.
 * @param from The folder that the user is in.
 * @throws {Error} If there is no project of the user's.
 */
export async function findProject(
  folder: string,
  from: string,
): Promise<string> {
  const path = resolve(from, folder);
  const places = basename(path) === "supabase" ? [path] : [];
  for (const supabase of [...places, join(path, "supabase")]) {
    if (await configOf(supabase) === undefined) continue;
    const project = dirname(await Deno.realPath(supabase));
    if (project !== await Deno.realPath(REPOSITORY)) return project;
    throw new Error(`${path} is the receiver itself. Name your project.`);
  }
  throw new Error(
    `${path} has no supabase/config.toml. Name the folder that holds supabase/, or run "supabase init" there first.`,
  );
}

/** Reads a project that `findProject()` has returned. */
export async function readProject(path: string): Promise<Project> {
  const supabase = join(path, "supabase");
  const config = (await configOf(supabase))!;
  // "supabase db schema declarative sync" reads this folder as a whole.
  const delta = valueAt(config.content, ["experimental", "pgdelta"]);
  const folder = valueAt(delta, ["declarative_schema_path"]) ?? "schemas";
  const schemas = String(folder).replace(/^\.\/|\/+$/g, "");
  const declarative = await readFolder(supabase, schemas);
  const hasFiles = [...declarative.keys()].some((it) => it.endsWith(".sql"));
  // The older engine reads this list, and "supabase db diff" with it.
  const list = valueAt(config.content, ["db", "migrations", "schema_paths"]);
  const paths = valueAt(delta, ["enabled"]) === false && Array.isArray(list)
    ? list
    : [];
  const isListed = paths.some((path) => String(path).includes(schemas));
  return {
    supabase,
    config,
    manifest: parseManifest(await readText(join(supabase, MANIFEST))),
    sql: new Map([...await readFolder(supabase, "migrations"), ...declarative]),
    schemas: hasFiles || paths.length > 0 ? schemas : undefined,
    todo: paths.length > 0 && !isListed
      ? [`Add "./${schemas}/billing_*.sql" to schema_paths in config.toml.`]
      : [],
  };
}

async function configOf(supabase: string): Promise<Config | undefined> {
  for (const name of CONFIG_FILES) {
    const text = await readText(join(supabase, name));
    if (text !== undefined) return readConfig(name, text);
  }
  return undefined;
}
