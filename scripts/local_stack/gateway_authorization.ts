import { isValidToken, type LocalKeys } from "../common/keys.ts";

/**
 * Returns the `Authorization` with which a request is passed on to the REST
 * API, by the rule of Supabase's gateway: `apikey` must be a key, and a key of
 * the new kind is replaced by its role's token, unless the request has a token
 * of its own.
 *
 * @returns undefined if the key is missing or wrong
 */
export async function authorize(
  { apikey, authorization }: {
    readonly apikey?: string | undefined;
    readonly authorization?: string | undefined;
  },
  keys: LocalKeys,
): Promise<string | undefined> {
  const token = apikey && await tokenFor(apikey, keys);
  if (!token) return undefined;
  const isOwnToken = authorization !== undefined &&
    !/^bearer\s+sb_/i.test(authorization);
  return isOwnToken ? authorization : `Bearer ${token}`;
}

async function tokenFor(
  apikey: string,
  keys: LocalKeys,
): Promise<string | undefined> {
  if (apikey === keys.secret) return keys.serviceRole;
  if (apikey === keys.publishable) return keys.anon;
  return await isValidToken(apikey, Date.now() / 1000) ? apikey : undefined;
}
