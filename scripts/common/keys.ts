import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";

/** The keys of the local stack's gateway. */
export type LocalKeys = {
  publishable: string;
  secret: string;
  /** The keys of the old kind: tokens that name a role. */
  anon: string;
  serviceRole: string;
};

/** What tokens are signed with, by `supabase start` as well. */
export const LOCAL_JWT_SECRET =
  "super-secret-jwt-token-with-at-least-32-characters-long";

// `supabase start` gives these to everybody, with tokens that are good until
// 2032-11-18.
const PUBLISHABLE = "sb_publishable_ACJWlzQHlZjBrEguHvfOxg_3BJgxAaH";
const DEMO = { iss: "supabase-demo", exp: 1983812996 };

/** Makes the keys that everybody's local stack has. */
export async function localKeys(): Promise<LocalKeys> {
  const { iss, exp } = DEMO;
  return {
    publishable: PUBLISHABLE,
    secret: LOCAL_SECRET_KEY,
    anon: await signToken({ iss, role: "anon", exp }),
    serviceRole: await signToken({ iss, role: "service_role", exp }),
  };
}

/** Signs a JSON Web Token (RFC 7519) with HS256 and the local secret. */
export async function signToken(claims: object): Promise<string> {
  const signed = [{ alg: "HS256", typ: "JWT" }, claims]
    .map((part) => base64Url(new TextEncoder().encode(JSON.stringify(part))))
    .join(".");
  const signature = await crypto.subtle.sign(
    "HMAC",
    await hmacKey(),
    new TextEncoder().encode(signed),
  );
  return `${signed}.${base64Url(new Uint8Array(signature))}`;
}

/**
 * Whether a token is signed with HS256 and the local secret and has not
 * expired (RFC 7519, section 4.1.4).
 *
 * @param now in seconds since 1970
 */
export async function isValidToken(
  token: string,
  now: number,
): Promise<boolean> {
  const [header, claims, signature, ...more] = token.split(".");
  if (!header || !claims || !signature || more.length > 0) return false;
  try {
    const { alg } = JSON.parse(decodeBase64Url(header));
    const { exp } = JSON.parse(decodeBase64Url(claims));
    if (alg !== "HS256" || (exp !== undefined && !(exp > now))) return false;
    return await crypto.subtle.verify(
      "HMAC",
      await hmacKey(),
      Uint8Array.fromBase64(signature, { alphabet: "base64url" }),
      new TextEncoder().encode(`${header}.${claims}`),
    );
  } catch {
    return false;
  }
}

function base64Url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function decodeBase64Url(text: string): string {
  return new TextDecoder().decode(
    Uint8Array.fromBase64(text, { alphabet: "base64url" }),
  );
}

function hmacKey(): Promise<CryptoKey> {
  return crypto.subtle.importKey(
    "raw",
    new TextEncoder().encode(LOCAL_JWT_SECRET),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign", "verify"],
  );
}
