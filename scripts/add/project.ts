import { basename, dirname, join, resolve } from "node:path";
import { REPOSITORY } from "../common/how_started.ts";
import { type Config, readConfig, valueAt } from "./config.ts";
import { readFolder, readText } from "./receiver.ts";

export const MANIFEST = "billing.json";

/** `add` deletes files that the manifest names, so it may name no others. */
const OURS =
  /^(?!.*\.\.)(functions\/(billing-webhook|billing-worker|_shared\/billing)\/.+|snippets\/.+|migrations\/\d+_billing\w*\.sql|.+\/billing_\d_\w+\.sql)$/;

export type Project = Readonly<Awaited<ReturnType<typeof readProject>>>;

/** What `add` has put there: fingerprints of the version's texts, by path. */
interface Manifest {
  readonly version: string;
  readonly files: Readonly<Record<string, string>>;
}

/**
 * Returns the folder that holds a project's `supabase` folder, without links. The
 * user is in `from`, and may have typed the `supabase` folder itself.
 */
export async function findProject(folder: string, from: string) {
  const path = resolve(from, folder);
  for (const supabase of [path, join(path, "supabase")]) {
    if (basename(supabase) !== "supabase") continue;
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
export async function readProject(path: string) {
  const supabase = join(path, "supabase");
  const config = (await configOf(supabase))!;
  // "supabase db schema declarative sync" reads this folder as a whole.
  const delta = valueAt(config.content, ["experimental", "pgdelta"]);
  const folder = valueAt(delta, ["declarative_schema_path"]) ?? "schemas";
  const schemas = String(folder).replace(/^\.\/|\/+$/g, "");
  const declarative = await readFolder(supabase, schemas);
  const hasSql = [...declarative.keys()].some((it) => it.endsWith(".sql"));
  return {
    supabase,
    config,
    manifest: parseManifest(await readText(join(supabase, MANIFEST))),
    /** The texts of its migrations and declarative schemas, by path. */
    sql: new Map([...await readFolder(supabase, "migrations"), ...declarative]),
    /** Where its declarative schemas are, below `supabase/`, if it has any. */
    schemas: hasSql ? schemas : undefined,
  };
}

async function configOf(supabase: string): Promise<Config | undefined> {
  // Of the CLI's configuration files, the first one wins.
  for (const name of ["config.json", "config.jsonc", "config.toml"]) {
    const text = await readText(join(supabase, name));
    if (text !== undefined) return readConfig(name, text);
  }
  return undefined;
}

function parseManifest(text: string | undefined): Manifest {
  if (text === undefined) return { version: "", files: {} };
  try {
    const { version, files } = JSON.parse(text);
    const isOurs = Object.keys(files).every((path) => OURS.test(path));
    if (isOurs && typeof version === "string") return { version, files };
  } catch {
    // Answered below.
  }
  throw new Error(
    `Cannot use supabase/${MANIFEST}: it is not what add has written. After a merge, take either side as a whole.`,
  );
}
