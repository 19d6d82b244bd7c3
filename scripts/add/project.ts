/** What `add` reads: this version of the receiver, and the project. */
import { createHash } from "node:crypto";
import { basename, dirname, join, normalize, resolve } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { builtFile, FUNCTIONS } from "../common/built.ts";
import { REPOSITORY } from "../common/environment.ts";
import { type Config, readConfig, valueAt } from "./config.ts";

export const MANIFEST = "billing.json";

export const ATTRIBUTES = ".gitattributes";

/** `add` deletes files that the manifest names, so it may name no others. */
const OURS =
  /^(?!.*\.\.)(functions\/billing-(webhook|worker)\/index\.mjs|snippets\/billing_\w+\.sql|\.gitattributes|migrations\/\d+_billing\w*\.sql|.+\/billing_\d\d_\w+\.sql)$/;

export type Receiver = Readonly<Awaited<ReturnType<typeof readReceiver>>>;

/** Texts are by their paths below `supabase/`. */
export async function readReceiver() {
  const supabase = join(REPOSITORY, "supabase");
  const migrations = await readMigrations();
  const files = new Map(await readFolder(supabase, "snippets"));
  for (const name of FUNCTIONS) {
    const text = await Deno.readTextFile(builtFile(name));
    files.set(`functions/${name}/index.mjs`, text);
  }
  return {
    version: manifest.version,
    files: files as ReadonlyMap<string, string>,
    migrations,
    schemas: await readFolder(supabase, "schemas"),
  };
}

export function readMigrations(): Promise<ReadonlyMap<string, string>> {
  return readFolder(join(REPOSITORY, "supabase"), "migrations");
}

export type Project = Readonly<Awaited<ReturnType<typeof readProject>>>;

/** What `add` has put there: fingerprints of the version's texts, by path. */
interface Manifest {
  readonly version: string;
  readonly files: Readonly<Record<string, string>>;
}

/** The user is in `from`, and may have typed the `supabase` folder itself, or a link. */
export async function findProject(folder: string, from: string) {
  const path = resolve(from, folder);
  const isInside = basename(path) === "supabase";
  for (const holder of isInside ? [dirname(path), path] : [path]) {
    if (await configOf(join(holder, "supabase")) === undefined) continue;
    const project = await Deno.realPath(holder);
    if (project !== await Deno.realPath(REPOSITORY)) return project;
    throw new Error(`${path} is the receiver itself. Name your project.`);
  }
  throw new Error(
    `${path} has no supabase/config.toml. Name the folder that holds supabase/, or run "supabase init" there first.`,
  );
}

export async function readProject(path: string) {
  const supabase = join(path, "supabase");
  const config = (await configOf(supabase))!;
  // "supabase db schema declarative sync" reads this folder as a whole.
  const delta = valueAt(config.content, ["experimental", "pgdelta"]);
  const folder = valueAt(delta, ["declarative_schema_path"]) ?? "schemas";
  const schemas = normalize(`${folder}`).replace(/\/$/, "");

  const migrations = await readFolder(supabase, "migrations");
  const declarative = await readFolder(supabase, schemas);
  const hasSql = [...declarative.keys()].some((it) => it.endsWith(".sql"));

  return {
    supabase,
    config,
    manifest: parseManifest(await readText(join(supabase, MANIFEST))),
    sql: new Map([...withoutUndone(migrations), ...declarative]),
    /** Where its declarative schemas are, below `supabase/`, if it has any. */
    schemas: hasSql ? schemas : undefined,
  };
}

/** Leaves out the receiver's migrations that one of `remove` has undone. */
function withoutUndone(migrations: ReadonlyMap<string, string>) {
  const paths = [...migrations.keys()];
  const removal = paths.findLast((path) =>
    /\d_billing_remove\.sql$/.test(path)
  );
  return [...migrations].filter(([path]) =>
    removal === undefined || path >= removal || !OURS.test(path)
  );
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

/** Returns the SHA-256 of a text, in hex. git may check it out with CRLF or LF. */
export function fingerprint(text: string): string {
  const withLf = text.replaceAll("\r\n", "\n");
  return createHash("sha256").update(withLf).digest("hex");
}

/** Returns a file's text, with its byte order mark; undefined without a file. */
export async function readText(path: string): Promise<string | undefined> {
  const bytes = await Deno.readFile(path).catch(ifMissing);
  return bytes && new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/**
 * Returns the texts below a folder, also behind links, by their paths below `root` and
 * in order, without hidden files such as `.env`.
 */
export async function readFolder(
  root: string,
  folder: string,
  found = new Map<string, string>(),
): Promise<ReadonlyMap<string, string>> {
  const entries = await Array.fromAsync(Deno.readDir(resolve(root, folder)))
    .catch(ifMissing) ?? [];
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  for (const { name } of entries) {
    if (name.startsWith(".") || name === "node_modules") continue;
    const path = `${folder}/${name}`;
    const text = await readText(resolve(root, path));
    if (text === undefined) await readFolder(root, path, found);
    else found.set(path, text);
  }
  return found;
}

/** What is in a file's way is found when a plan is made. */
export function ifMissing(error: unknown): undefined {
  const missing = /^(NotFound|NotADirectory|IsADirectory|FilesystemLoop)$/;
  if (!missing.test((error as Error).name)) throw error;
}
