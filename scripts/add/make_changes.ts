import { dirname, join } from "node:path";
import type { Change } from "./plan.ts";

/** Where a file is written before it gets its name, below `supabase/`. */
const UNFINISHED = ".billing-add";

/**
 * Makes the changes of a plan, one after the other. Each file is there as a
 * whole or not at all, so that an interrupted run can be run again.
 *
 * @param supabase The project's `supabase` folder.
 */
export async function makeChanges(
  supabase: string,
  changes: readonly Change[],
): Promise<void> {
  const unfinished = join(supabase, UNFINISHED);
  // An interrupted run may have left it.
  await removeIfThere(unfinished);
  for (const { path, text } of changes) {
    const target = join(supabase, path);
    if (text === undefined) {
      await Deno.remove(target);
      await removeIfEmpty(dirname(target));
      continue;
    }
    await Deno.mkdir(dirname(target), { recursive: true });
    // A new file: it does not follow a link.
    await Deno.writeTextFile(unfinished, text, { createNew: true });
    await keepMode(target, unfinished);
    await Deno.rename(unfinished, target);
  }
}

async function keepMode(from: string, to: string): Promise<void> {
  const { mode } = await Deno.stat(from).catch(() => ({ mode: null }));
  if (mode !== null) await Deno.chmod(to, mode & 0o777);
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

async function removeIfEmpty(folder: string): Promise<void> {
  const [entry] = await Array.fromAsync(Deno.readDir(folder));
  if (entry === undefined) await Deno.remove(folder);
}
