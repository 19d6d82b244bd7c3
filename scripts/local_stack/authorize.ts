import { isValidToken, type LocalKeys } from "../common/keys.ts";

/**
 * Which `Authorization` a request to the REST API goes on with, by the rule of
 * Supabase's gateway: `apikey` must be a key. One of the new kind stands for
 * its role's token, unless the request brings a token of its own.
 *
 * @param headers the request's `apikey` and `authorization`
 * @returns nothing where the key is missing or wrong
 */
export async function authorize(
  headers: { apikey?: string | undefined; authorization?: string | undefined },
  keys: LocalKeys,
): Promise<string | undefined> {
  const { apikey, authorization } = headers;
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
  if (apikey === keys.serviceRole || apikey === keys.anon) return apikey;
  return await isValidToken(apikey, Date.now() / 1000) ? apikey : undefined;
}
