/**
 * What every local stack has in common, and anybody can look up. None of it may
 * be trusted anywhere else.
 *
 * @module
 */
import type { Environment } from "../_shared/billing/config.ts";

/** The secret key that `supabase start` gives to every project. */
export const LOCAL_SECRET_KEY = "sb_secret_N7UND0UgjKTVK-Uodkm0Hg_xSvEMPvz";

/** The signing secrets of a fresh clone. Each fits every scheme. */
export const LOCAL_SIGNING_SECRETS = {
  PROVIDER_A_SIGNING_SECRET: "whsec_localProviderA0123456789abcdefgh",
  PROVIDER_B_SIGNING_SECRET: "whsec_localProviderB0123456789abcdefgh",
} as const;

/**
 * Whether the function runs on a local stack, with or without Docker: its
 * secret key is the one that everybody has. The URL does not tell, because
 * `supabase functions serve` and a self-hosted Supabase both have
 * `http://kong:8000`. Anything unknown is not local.
 */
export function isLocalStack(env: Environment): boolean {
  return env["SUPABASE_SECRET_KEYS"]?.includes(`"${LOCAL_SECRET_KEY}"`) ??
    false;
}

/** Whether anybody can look this signing secret up. */
export function isPublished(secret: string): boolean {
  return Object.values<string>(LOCAL_SIGNING_SECRETS).includes(secret);
}
