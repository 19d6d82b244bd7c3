import { type JWTPayload, jwtVerify, SignJWT } from "jose";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";

export type LocalKeys = Awaited<ReturnType<typeof localKeys>>;

/** The secret with which the local stack and `supabase start` sign tokens. */
export const LOCAL_JWT_SECRET =
  "super-secret-jwt-token-with-at-least-32-characters-long";

const SECRET_BYTES = new TextEncoder().encode(LOCAL_JWT_SECRET);

// `supabase start` gives these to everyone, with tokens valid until 2032-11-18.
const PUBLISHABLE = "sb_publishable_ACJWlzQHlZjBrEguHvfOxg_3BJgxAaH";
const DEMO = { iss: "supabase-demo", exp: 1983812996 };

export async function localKeys() {
  const { iss, exp } = DEMO;
  return {
    publishable: PUBLISHABLE,
    secret: LOCAL_SECRET_KEY,
    /** The keys of the old kind: tokens that name a role. */
    anon: await signToken({ iss, role: "anon", exp }),
    serviceRole: await signToken({ iss, role: "service_role", exp }),
  };
}

export async function signToken(claims: JWTPayload): Promise<string> {
  return await new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .sign(SECRET_BYTES);
}

export async function isValidToken(token: string): Promise<boolean> {
  const options = { algorithms: ["HS256"] };
  return await jwtVerify(token, SECRET_BYTES, options)
    .then(() => true, () => false);
}
