import { join } from "node:path";
import { isFromPackage, PROJECT } from "./how_started.ts";

/**
 * Returns where the local stack's data is kept by default: in the repository, or
 * below /var/tmp for root and from the npm package. For root, Postgres runs as
 * another account, which may not be able to read the repository's folder; the
 * package leaves nothing in the user's project.
 */
export async function defaultStateFolder(): Promise<string> {
  if (Deno.uid() !== 0 && !isFromPackage) return join(PROJECT, ".stack");
  const path = new TextEncoder().encode(await Deno.realPath(PROJECT));
  const digest = await crypto.subtle.digest("SHA-256", path);
  const name = new Uint8Array(digest).toHex().slice(0, 8);
  return `/var/tmp/billing-webhook-${name}`;
}
