import { createHash } from "node:crypto";
import { join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { REPOSITORY } from "../common/how_started.ts";

/** One version of the receiver: texts by their paths below `supabase/`. */
export type Receiver = Readonly<Awaited<ReturnType<typeof readReceiver>>>;

const COPIED_FOLDERS = [
  "functions/billing-webhook",
  "functions/billing-worker",
  "functions/_shared/billing",
  "snippets",
];

/** Reads the receiver from a clone of this repository, or from the package. */
export async function readReceiver() {
  const supabase = join(REPOSITORY, "supabase");
  const files = new Map<string, string>();
  for (const folder of COPIED_FOLDERS) {
    await readFolder(supabase, folder, files);
  }
  return {
    version: manifest.version,
    /** The functions and the snippets. */
    files: files as ReadonlyMap<string, string>,
    migrations: await readFolder(supabase, "migrations"),
    /** For projects with declarative schemas. */
    schemas: await readFolder(supabase, "schemas"),
  };
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
 * Returns the texts of the files below a folder, by their paths below `root` and
 * in order, without hidden files such as `.env`.
 */
export async function readFolder(
  root: string,
  folder: string,
  found = new Map<string, string>(),
): Promise<ReadonlyMap<string, string>> {
  const entries = await Array.fromAsync(Deno.readDir(join(root, folder)))
    .catch(ifMissing) ?? [];
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  for (const { name, isDirectory, isFile } of entries) {
    if (name.startsWith(".") || name === "node_modules") continue;
    const path = `${folder}/${name}`;
    if (isDirectory) await readFolder(root, path, found);
    if (isFile) found.set(path, await Deno.readTextFile(join(root, path)));
  }
  return found;
}

function ifMissing(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
