import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { makeChanges } from "./make_changes.ts";
import type { Plan } from "./plan.ts";

/** Held while the project is written, below `supabase/`. */
const LOCK = ".billing-add.lock";

/**
 * Makes the changes of a plan that was shown, unless the project is not any more
 * what it was then: an editor may have saved a file while the user was asked.
 *
 * @param supabase The project's `supabase` folder.
 * @param planAgain Reads the project again and plans by the same clock.
 * @throws {Error} If the project has changed, or another `add` writes it.
 */
export async function writePlan(
  supabase: string,
  plan: Plan,
  planAgain: () => Promise<Plan>,
): Promise<void> {
  const path = join(supabase, LOCK);
  using file = await Deno.open(path, { create: true, write: true });
  // The system unlocks it if this process is killed.
  if (!await file.tryLock(true)) {
    throw new Error(
      "Nothing was written: another add is at work in this project. Wait until it has ended.",
    );
  }
  try {
    if (!isDeepStrictEqual(await planAgain(), plan)) {
      throw new Error(
        "Nothing was written: the project has changed since it was read. Run the same command again.",
      );
    }
    await makeChanges(supabase, plan.changes);
  } finally {
    await Deno.remove(path);
  }
}
