import { join } from "node:path";

/**
 * Returns why a path below `supabase` cannot be written. Links may lead out of the
 * project, so nothing is written through them.
 */
export async function obstacleAt(
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

/**
 * Returns a file's text; undefined if there is no such file.
 *
 * @throws {Error} If it is not UTF-8.
 */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return new TextDecoder("utf-8", UTF8).decode(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`Cannot read ${path}: it is not text in UTF-8.`);
  }
}

/** Returns the names in a folder, in order; none if there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    return entries.map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
