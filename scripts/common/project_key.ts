import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { UsageError } from "./cli.ts";
import { isLoopback } from "./loopback.ts";

/**
 * Returns the secret key of a project: the given one, or by default that of the
 * local stack for a project on this machine.
 *
 * @throws {UsageError} If there is none, or if it is the publishable key. The
 * message does not repeat it.
 */
export function projectKey(
  projectUrl: string,
  given: string | undefined,
): string {
  const key = given || (isLoopback(projectUrl) ? LOCAL_SECRET_KEY : "");
  if (key !== "" && !key.startsWith("sb_publishable_")) return key;
  throw new UsageError(
    `${projectUrl} needs SUPABASE_SECRET_KEY: sb_secret_... (dashboard, Project Settings, API Keys).`,
  );
}
