import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import { isLoopback } from "../common/loopback.ts";

/** Longer than a project that is there takes, in milliseconds. */
const TIME_LIMIT = 10_000;

/**
 * Makes sure that the project is there and lets this command in, before
 * anything waits for it with patience.
 *
 * @param options.signal Ends the waiting.
 * @throws {Error} With what to do.
 */
export async function checkProject(
  database: DatabaseClient,
  { projectUrl, signal }: { projectUrl: string; signal: AbortSignal },
): Promise<void> {
  const { status } = await database.from("billing_health").select("*")
    .abortSignal(AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT)]));
  signal.throwIfAborted();
  if (status === 0) {
    const todo = isLoopback(projectUrl)
      ? "Is the local stack running? Start it with: deno task start"
      : "Is it the project's address, https://<project-ref>.supabase.co?";
    throw new Error(`Cannot reach ${projectUrl}. ${todo}`);
  }
  if (status < 400 || status >= 500) return;
  const [text, todo] = restRefusal(status);
  throw new Error(`Cannot use ${projectUrl}: ${text}. ${todo}.`);
}
