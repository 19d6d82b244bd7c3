import { join } from "node:path";
import { REPOSITORY } from "./supabase_cli.ts";

/**
 * Returns where the local stack's data is kept by default: in the repository, or
 * for root below /var/tmp. For root, Postgres runs as another account, which may
 * not be able to read the repository's folder.
 */
export async function defaultStateFolder(): Promise<string> {
  if (Deno.uid() !== 0) return join(REPOSITORY, ".stack");
  const path = new TextEncoder().encode(await Deno.realPath(REPOSITORY));
  const digest = await crypto.subtle.digest("SHA-256", path);
  const name = new Uint8Array(digest).toHex().slice(0, 8);
  return `/var/tmp/billing-webhook-${name}`;
}
