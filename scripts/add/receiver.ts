/**
 * What this version of the receiver puts into a project.
 *
 * @module
 */
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { REPOSITORY } from "../common/how_started.ts";
import { readFolder } from "./files.ts";

/** One version of the receiver. */
export interface Receiver {
  readonly version: string;
  /** The functions and the snippets, by path below `supabase/`. */
  readonly files: ReadonlyMap<string, string>;
  /** By what follows the version in the file's name, such as `_billing.sql`. */
  readonly migrations: ReadonlyMap<string, string>;
  /** For projects with declarative schemas, by file name. */
  readonly schemas: ReadonlyMap<string, string>;
}

/** The folders, below `supabase/`, whose files are copied. */
export const COPIED_FOLDERS = [
  "functions/billing-webhook",
  "functions/billing-worker",
  "functions/_shared/billing",
  "snippets",
];

/** Reads the receiver from a clone of this repository, or from the package. */
export async function readReceiver(): Promise<Receiver> {
  const supabase = join(REPOSITORY, "supabase");
  const files = await Promise.all(
    COPIED_FOLDERS.map((folder) => readFolder(supabase, folder)),
  );
  async function byName(folder: string, start: RegExp) {
    const texts = [...await readFolder(supabase, folder)];
    return new Map(
      texts.map(([path, text]) => [path.replace(start, ""), text]),
    );
  }
  return {
    version: manifest.version,
    files: new Map(files.flatMap((folder) => [...folder])),
    migrations: await byName("migrations", /^migrations\/\d+/),
    schemas: await byName("schemas", /^schemas\//),
  };
}
