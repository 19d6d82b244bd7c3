/** Returns the headers with which the REST API accepts a secret key, old or new. */
export function restHeaders(secretKey: string): Record<string, string> {
  return secretKey.startsWith("sb_")
    ? { apikey: secretKey }
    : { apikey: secretKey, authorization: `Bearer ${secretKey}` };
}
