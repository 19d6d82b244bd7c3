import { createHash } from "node:crypto";
import { join } from "node:path";

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
  for (const { name, isDirectory, isFile } of entries.sort(byName)) {
    if (name.startsWith(".") || name === "node_modules") continue;
    const path = `${folder}/${name}`;
    if (isDirectory) await readFolder(root, path, found);
    if (isFile) found.set(path, await Deno.readTextFile(join(root, path)));
  }
  return found;
}

function byName(a: Deno.DirEntry, b: Deno.DirEntry): number {
  return a.name < b.name ? -1 : 1;
}

function ifMissing(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
