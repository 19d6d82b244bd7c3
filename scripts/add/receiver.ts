/**
 * What this version of the receiver puts into a project.
 *
 * @module
 */
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { REPOSITORY } from "../common/how_started.ts";
import { ENV_EXAMPLE } from "./env_example.ts";
import { withLf } from "./fingerprint.ts";
import { sectionsOf } from "./config_sections.ts";
import { type Migration, migrationOf } from "./migrations.ts";

/** One version of the receiver. */
export interface Receiver {
  readonly version: string;
  /** Texts, by their paths below `supabase/`. */
  readonly files: ReadonlyMap<string, string>;
  readonly migrations: readonly Migration[];
  /** Sections of config.toml, by the names of the functions. */
  readonly sections: ReadonlyMap<string, string>;
}

/** The folders, below `supabase/`, whose files are copied. */
export const COPIED_FOLDERS = [
  "functions/billing-webhook",
  "functions/billing-worker",
  "functions/_shared/billing",
  "snippets",
] as const;

/** Reads the receiver from a clone of this repository. */
export async function readReceiver(clone = REPOSITORY): Promise<Receiver> {
  const supabase = join(clone, "supabase");
  const files = new Map<string, string>();
  for (const folder of COPIED_FOLDERS) {
    for await (const path of filesBelow(supabase, folder)) {
      files.set(path, await readLf(join(supabase, path)));
    }
  }
  files.set(ENV_EXAMPLE, await readLf(join(supabase, ENV_EXAMPLE)));
  const migrations: Migration[] = [];
  for await (const path of filesBelow(supabase, "migrations")) {
    const text = await readLf(join(supabase, path));
    migrations.push(migrationOf(path.slice("migrations/".length), text));
  }
  return {
    version: manifest.version,
    files,
    migrations,
    sections: sectionsOf(
      await readLf(join(supabase, "config.toml")),
    ),
  };
}

/** A project gets the same bytes from a clone that git checked out with CRLF. */
async function readLf(path: string): Promise<string> {
  return withLf(await Deno.readTextFile(path));
}

/** The files of a folder, in order, without hidden ones such as `.env`. */
async function* filesBelow(
  root: string,
  folder: string,
): AsyncGenerator<string> {
  const entries = await Array.fromAsync(Deno.readDir(join(root, folder)));
  for (const { name, isDirectory } of entries.sort(byName)) {
    if (name.startsWith(".") || name === "node_modules") continue;
    const path = `${folder}/${name}`;
    if (isDirectory) yield* filesBelow(root, path);
    else yield path;
  }
}

function byName(a: Deno.DirEntry, b: Deno.DirEntry): number {
  return a.name < b.name ? -1 : 1;
}
