import type { Environment } from "./environment.ts";

/**
 * Settings with which every version of Deno trusts the certificates that this
 * machine trusts. Behind a proxy that inspects TLS, NODE_EXTRA_CA_CERTS or
 * SSL_CERT_FILE names the proxy's certificate: Deno 2.1.4 reads neither by
 * itself, Deno 2.9.6 only the first. A setting that the user made stays.
 *
 * @param env The environment of this process.
 */
export function trustedCertificates(env: Environment): Environment {
  const { NODE_EXTRA_CA_CERTS: extra, SSL_CERT_FILE: system } = env;
  const {
    DENO_CERT = [extra, system].find(isFile),
    DENO_TLS_CA_STORE = "mozilla,system",
  } = env;
  return {
    ...(DENO_CERT !== undefined && { DENO_CERT }),
    // Without the file that is named, Deno 2.1.4 crashes.
    ...((system === undefined || isFile(system)) && { DENO_TLS_CA_STORE }),
  };
}

function isFile(path: string | undefined): boolean {
  if (!path) return false;
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
