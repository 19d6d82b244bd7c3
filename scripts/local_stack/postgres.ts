import { join } from "node:path";
import { endProcess, lookUpProcess } from "../common/processes.ts";
import type { ServiceSpec } from "./service.ts";

/** Where a server's programs and data are, and who runs it. */
export interface PostgresPlace {
  /** The folder that holds `bin`, `lib` and `share`. */
  readonly binaries: string;
  /** The data folder; its parent must exist. */
  readonly data: string;
  /** Undefined for the account that runs this process. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
}

/** The server's environment, without anything from the user's. */
export const POSTGRES_ENV = { LC_ALL: "C", TZ: "UTC" };

// Linux's usual number, if the list of accounts does not name `nobody`.
const NOBODY = 65534;

/**
 * Returns the account that runs Postgres, which refuses to run as root: `nobody`
 * if this process is root, otherwise undefined for the current account.
 */
export async function databaseUser(): Promise<PostgresPlace["user"]> {
  if (Deno.uid() !== 0) return undefined;
  const accounts = await Deno.readTextFile("/etc/passwd");
  const found = /^nobody:[^:]*:(-?\d+):(-?\d+):/m.exec(accounts);
  // macOS writes -2 for 4294967294.
  return {
    uid: Number(found?.[1] ?? NOBODY) >>> 0,
    gid: Number(found?.[2] ?? NOBODY) >>> 0,
  };
}

/**
 * Returns how to run the server: on 127.0.0.1 only, without a socket file.
 *
 * @param options.fsync false for tests, which need not survive a power failure
 */
export function postgresService(
  place: PostgresPlace,
  options: { readonly port: number; readonly fsync: boolean },
): ServiceSpec {
  const settings = {
    listen_addresses: "127.0.0.1",
    port: options.port,
    unix_socket_directories: "",
    max_connections: 100,
    // As on Supabase, for Realtime.
    wal_level: "logical",
    timezone: "UTC",
    log_timezone: "UTC",
    // Clients get the errors of their statements; logged, they would show
    // payloads.
    log_min_messages: "fatal",
    fsync: options.fsync,
    synchronous_commit: options.fsync,
    full_page_writes: options.fsync,
  };
  return {
    name: "Postgres",
    command: join(place.binaries, "bin", "postgres"),
    args: [
      "-D",
      place.data,
      ...Object.entries(settings).flatMap(([k, v]) => ["-c", `${k}=${v}`]),
    ],
    env: POSTGRES_ENV,
    cwd: place.binaries,
    user: place.user,
    isReady: async (id) => {
      const file = await readPostmasterFile(place.data);
      return file?.processId === id && file.status === "ready";
    },
    stopSignal: "SIGINT", // fast shutdown: does not wait for clients
  };
}

/**
 * Ends a server that still runs on the data folder because an earlier stack was
 * killed. If another program has its id by now, the server is gone, and its
 * `postmaster.pid` is removed so that the next one can start. (`pg_ctl stop`
 * would signal whatever program has the id.)
 */
export async function endLeftoverPostgres(
  data: string,
  { onProgress }: {
    readonly onProgress?: ((text: string) => void) | undefined;
  } = {},
): Promise<void> {
  const file = await readPostmasterFile(data);
  const entry = file && await lookUpProcess(file.processId);
  if (!entry) return;
  if (entry.command.includes(`/bin/postgres -D ${data} `)) {
    onProgress?.(
      `Stopping Postgres of an earlier stack (process ${file.processId})`,
    );
    await endProcess(file.processId, { signal: "SIGINT" });
  } else if (!/\bpostgres\b/.test(entry.command)) {
    await Deno.remove(join(data, "postmaster.pid"));
  }
}

// Postgres's documentation, "Database File Layout": line 1 is the process id.
// Line 8 is the server's state, which pg_ctl reads as well.
async function readPostmasterFile(data: string) {
  try {
    const text = await Deno.readTextFile(join(data, "postmaster.pid"));
    const lines = text.split("\n");
    return { processId: Number(lines[0]), status: lines[7]?.trim() };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
