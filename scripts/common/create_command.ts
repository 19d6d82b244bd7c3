import { existsSync } from "node:fs";
import type { Environment } from "./environment.ts";

/** Starts every process of this project: Deno and npm's tools may download at any time. */
export function createCommand(
  program: string,
  options: Deno.CommandOptions = {},
): Deno.Command {
  return new Deno.Command(program, {
    ...options,
    env: { ...trustedCertificates(Deno.env.toObject()), ...options.env },
  });
}

/**
 * Returns the settings with which every version of Deno trusts the certificates
 * that this machine trusts. Behind a proxy that inspects TLS,
 * NODE_EXTRA_CA_CERTS or SSL_CERT_FILE names the proxy's certificate: Deno 2.1.4
 * reads neither, Deno 2.9.6 only the first. The user's own settings win.
 */
export function trustedCertificates(env: Environment): Environment {
  const { NODE_EXTRA_CA_CERTS: extra, SSL_CERT_FILE: system } = env;
  const {
    DENO_CERT = [extra, system].find((path) => path && existsSync(path)),
    DENO_TLS_CA_STORE = "mozilla,system",
  } = env;
  return {
    ...(DENO_CERT !== undefined && { DENO_CERT }),
    // Deno 2.1.4 crashes if the file does not exist.
    ...((system === undefined || existsSync(system)) && { DENO_TLS_CA_STORE }),
  };
}
