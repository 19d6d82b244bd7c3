/** The keys and secrets of every local stack: public, so not to be trusted elsewhere. */
import type { Environment } from "../environment.ts";
import type { SecretVariable } from "./providers.ts";

/** The secret key that `supabase start` gives every project. */
export const LOCAL_SECRET_KEY = "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz";

/** The signing secrets of a fresh clone. Each works with every scheme. */
export const LOCAL_SIGNING_SECRETS = {
  PROVIDER_A_SIGNING_SECRET: "whsec_localProviderA0123456789abcdefgh",
  PROVIDER_B_SIGNING_SECRET: "whsec_localProviderB0123456789abcdefgh",
} as const satisfies Record<SecretVariable, string>;

/**
 * Returns whether the function runs on a local stack, by its public secret key. The URL
 * cannot tell: `supabase functions serve` and a self-hosted Supabase both use
 * `http://kong:8000`.
 */
export function isLocalStack(env: Environment): boolean {
  return env["SUPABASE_SECRET_KEYS"]?.includes(`"${LOCAL_SECRET_KEY}"`) ??
    false;
}

export function isPublished(secret: string): boolean {
  return Object.values<string>(LOCAL_SIGNING_SECRETS).includes(secret);
}
