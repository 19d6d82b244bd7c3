import type { DatabaseClient } from "../../supabase/functions/_shared/database.ts";
import { refusal } from "../doctor/check_failures.ts";

/**
 * Makes sure that the project lets this command in, before anything waits for
 * it with patience. Whether it can be reached is not asked here.
 *
 * @throws {Error} With what to do.
 */
export async function checkProject(
  database: DatabaseClient,
  { projectUrl }: { projectUrl: string },
): Promise<void> {
  const { status } = await database.from("billing_health").select("*");
  if (status < 400 || status >= 500) return;
  const [text, todo] = refusal(status);
  throw new Error(`Cannot use ${projectUrl}: ${text}. ${todo}.`);
}
