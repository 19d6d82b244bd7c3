import type { Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";

/**
 * Returns a database's URL, and for TLS the options of `tls.connect()`, or false
 * for none. The password goes only to a server
 * that proved its name with a certificate that this machine or `sslrootcert`
 * trusts. `sslmode=require` skips that, as in libpq (PostgreSQL's documentation,
 * "SSL Support"); a database on this machine needs no TLS.
 *
 * @param env `PGSSLROOTCERT` names a file, as in libpq.
 * @throws {Error} If the URL asks for less, or the file cannot be read.
 */
export async function databaseTls(databaseUrl: string, env: Environment) {
  const url = new URL(databaseUrl);
  const isHere = isLoopback(databaseUrl);
  const usual = isHere ? "disable" : "verify-full";
  const mode = url.searchParams.get("sslmode") ?? usual;
  const file = url.searchParams.get("sslrootcert") ?? env["PGSSLROOTCERT"];
  // `postgres` would pass them on to the server.
  url.searchParams.delete("sslmode");
  url.searchParams.delete("sslrootcert");
  const { href } = url;
  if (mode === "disable" && isHere) return { url: href, ssl: false as const };
  const isVerified = mode === "verify-full" || mode === "verify-ca";
  if (!isVerified && mode !== "require") {
    throw new Error("the sslmode in its URL may send the password unencrypted");
  }
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const ssl = { host, rejectUnauthorized: isVerified };
  if (!isVerified || !file || file === "system") return { url: href, ssl };
  try {
    const ca = await Deno.readTextFile(file);
    return { url: href, ssl: { ...ssl, ca } };
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`the root certificate ${file} cannot be read: ${message}`);
  }
}
