import { dirname, join } from "node:path";
import { ifMissing } from "./project.ts";

/** A file to write; null removes it. */
export interface Change {
  readonly verb: "add" | "change" | "remove";
  readonly path: string; // below `supabase/`
  readonly text: string | null;
}

/** Writes changes in their order, and removes folders that get empty. */
export async function writeChanges(
  supabase: string,
  changes: readonly Change[],
): Promise<void> {
  for (const { path, text } of changes) {
    const file = join(supabase, path);
    if (text === null) {
      await Deno.remove(file);
      await removeEmptyFolders(dirname(file), supabase);
      continue;
    }
    await Deno.mkdir(dirname(file), { recursive: true });
    // Renamed, because a file that was there may have a second name (a hard link).
    const before = await Deno.lstat(file).catch(() => undefined);
    const options = { createNew: true, mode: before?.mode ?? 0o666 };
    const unfinished = `${file}.new`;
    await Deno.writeTextFile(unfinished, text, options);
    await Deno.rename(unfinished, file);
  }
}

async function removeEmptyFolders(folder: string, root: string) {
  for await (const _ of Deno.readDir(folder)) return;
  if (folder === root) return;
  await Deno.remove(folder);
  await removeEmptyFolders(dirname(folder), root);
}

/** Returns why files cannot be written or removed, for each place that is wrong. */
export async function obstacles(project: string, changes: readonly Change[]) {
  const found = new Set<string>();
  for (const change of changes) {
    const file = `supabase/${change.path}`;
    const names = file.split("/");
    for (const depth of names.keys()) {
      const path = names.slice(0, depth + 1).join("/");
      const kind = path === file ? "file" : "folder";
      const wrong = await obstacleAt(join(project, path), kind);
      if (wrong === undefined) continue;

      found.add(`${path} ${wrong}. Put a ${kind} there instead, and commit.`);
      break;
    }
  }
  return found;
}

async function obstacleAt(place: string, wanted: "file" | "folder") {
  const entry = await Deno.lstat(place).catch(ifMissing);
  if (entry === undefined) return undefined;
  if (entry.isSymlink) {
    const target = await Deno.readLink(place);
    return `is a link to ${target}, and nothing is written through links`;
  }
  if (wanted === "file") return entry.isFile ? undefined : "is not a file";
  if (!entry.isDirectory) return "is not a folder";

  const repository = await Deno.lstat(join(place, ".git")).catch(ifMissing);
  return repository &&
    "is a git repository of its own, so yours would not show the changes";
}
