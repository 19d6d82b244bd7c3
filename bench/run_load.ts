import { createCommand } from "../scripts/common/create_command.ts";
import type { LoadPlan, LoadResult } from "./load.ts";

/** Runs the load generator in a process of its own. */
export async function runLoad(plan: LoadPlan): Promise<LoadResult> {
  const { success, stdout } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "bench/load.ts", JSON.stringify(plan)],
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("Cannot measure: the load generator failed");
  return JSON.parse(new TextDecoder().decode(stdout));
}
