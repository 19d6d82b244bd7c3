import { isLoopback } from "../common/loopback.ts";
import type { Environment } from "../common/environment.ts";

/** How a database's server proves who it is. */
export interface DatabaseTls {
  /** The URL, without parameters that `postgres` would pass on to the server. */
  readonly url: string;
  /** False for no TLS; the other options are those of `tls.connect()`. */
  readonly ssl: false | {
    readonly host: string;
    readonly rejectUnauthorized: boolean;
    readonly ca?: string;
  };
}

const VERIFIED = ["verify-full", "verify-ca"];

/**
 * Returns the TLS settings for a database. The password goes only to a server
 * that proved its name with a certificate that this machine or `sslrootcert`
 * trusts. `sslmode=require` skips that, as in libpq (PostgreSQL's documentation,
 * "SSL Support"); a database on this machine needs no TLS.
 *
 * @param env `PGSSLROOTCERT` names a file, as in libpq.
 * @throws {Error} If the URL asks for less, or the file cannot be read.
 */
export async function databaseTls(
  databaseUrl: string,
  env: Environment,
): Promise<DatabaseTls> {
  const url = new URL(databaseUrl);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isHere = isLoopback(databaseUrl);
  const mode = url.searchParams.get("sslmode") ??
    (isHere ? "disable" : "verify-full");
  const file = url.searchParams.get("sslrootcert") ?? env["PGSSLROOTCERT"];
  url.searchParams.delete("sslmode");
  url.searchParams.delete("sslrootcert");
  if (mode === "disable" && isHere) return { url: url.href, ssl: false };
  if (mode === "require") {
    return { url: url.href, ssl: { host, rejectUnauthorized: false } };
  }
  if (!VERIFIED.includes(mode)) {
    throw new Error(
      "the sslmode in its URL may send the password unencrypted",
    );
  }
  const ca = file && file !== "system"
    ? await readCertificate(file)
    : undefined;
  return {
    url: url.href,
    ssl: {
      host,
      rejectUnauthorized: true,
      ...(ca === undefined ? {} : { ca }),
    },
  };
}

/** Returns whether an error means that a server could not prove who it is. */
export function isUnproven(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === "string" &&
    /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET)/.test(code);
}

async function readCertificate(file: string): Promise<string> {
  try {
    return await Deno.readTextFile(file);
  } catch (error) {
    throw new Error(
      `the root certificate ${file} cannot be read: ${
        (error as Error).message
      }`,
    );
  }
}
