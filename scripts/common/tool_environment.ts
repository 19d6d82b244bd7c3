import type { Environment } from "./environment.ts";

const NEEDED = [
  /^(PATH|HOME|TMPDIR|XDG_CACHE_HOME|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS)$/,
  /^DENO_(DIR|CERT|TLS_CA_STORE|AUTH_TOKENS)$/,
  /^npm_config_|_proxy$/i,
];

/**
 * The part of this process's environment that Deno and the Supabase CLI need
 * to find their caches and the package registry, and nothing that a function
 * could take for a setting of its own.
 */
export function toolEnvironment(): Environment {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) =>
      NEEDED.some((pattern) => pattern.test(name))
    ),
  );
}
