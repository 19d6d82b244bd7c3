import type { Environment } from "../common/environment.ts";
import type { LocalKeys } from "../common/keys.ts";

/**
 * The names that Supabase itself gives to a function: the maps of keys, and
 * the single keys of the old kind.
 *
 * @param options.apiUrl the gateway's address
 * @param options.dbUrl the database's, for `postgres`
 */
export function platformEnvironment(
  options: { apiUrl: string; dbUrl: string; keys: LocalKeys },
): Environment {
  const { apiUrl, dbUrl, keys } = options;
  return {
    SUPABASE_URL: apiUrl,
    SUPABASE_DB_URL: dbUrl,
    SUPABASE_PUBLISHABLE_KEYS: JSON.stringify({ default: keys.publishable }),
    SUPABASE_SECRET_KEYS: JSON.stringify({ default: keys.secret }),
    SUPABASE_ANON_KEY: keys.anon,
    SUPABASE_SERVICE_ROLE_KEY: keys.serviceRole,
  };
}
