import { join } from "node:path";
import { endProcess, lookUpProcess } from "./processes.ts";
import type { ServiceSpec } from "./service.ts";

/** An account of the operating system, by its numbers. */
export type SystemUser = { uid: number; gid: number };

/** Where a server's programs and data are, and who runs it. */
export type PostgresPlace = {
  /** The folder that holds `bin`, `lib` and `share`. */
  binaries: string;
  /** The data folder; its parent must exist. */
  data: string;
  user: SystemUser | undefined;
};

/** The server's environment: nothing of the user's. */
export const POSTGRES_ENV = { LC_ALL: "C", TZ: "UTC" };

// Where the list of accounts does not name `nobody`, Linux's usual number.
const NOBODY = 65534;

/**
 * Who runs Postgres, which refuses to run as root: `nobody` where this process
 * is root, and nothing where it may as well run as whoever started it.
 */
export async function databaseUser(): Promise<SystemUser | undefined> {
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
 * How to run the server: on 127.0.0.1 only, without a socket file.
 *
 * @param options.fsync false for tests, which need not survive a power cut
 */
export function postgresService(
  place: PostgresPlace,
  options: { port: number; fsync: boolean },
): ServiceSpec {
  const settings = {
    listen_addresses: "127.0.0.1",
    port: options.port,
    unix_socket_directories: "",
    max_connections: 100,
    // As Supabase has it, for Realtime.
    wal_level: "logical",
    timezone: "UTC",
    log_timezone: "UTC",
    // Errors of statements reach the client; here they would repeat payloads.
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
    stopSignal: "SIGINT", // the fast shutdown: it waits for no client
  };
}

/**
 * Ends a server that an earlier stack, killed, has left running on the data
 * folder. Where its id has gone to some other program since, the file that
 * names it would only keep the next one from starting, and is removed.
 */
export async function endLeftoverPostgres(
  data: string,
  options: { onProgress?: ((text: string) => void) | undefined } = {},
): Promise<void> {
  const file = await readPostmasterFile(data);
  const entry = file && await lookUpProcess(file.processId);
  if (!entry) return;
  if (entry.command.includes(`/bin/postgres -D ${data} `)) {
    options.onProgress?.(
      `Ending Postgres of an earlier stack (process ${file.processId})`,
    );
    await endProcess(file.processId, { signal: "SIGINT" });
  } else if (!/\bpostgres\b/.test(entry.command)) {
    await Deno.remove(join(data, "postmaster.pid"));
  }
}

// Postgres's documentation, "Database File Layout": line 1 is the process,
// and pg_ctl takes line 8 for the server's state.
async function readPostmasterFile(
  data: string,
): Promise<{ processId: number; status: string | undefined } | undefined> {
  try {
    const text = await Deno.readTextFile(join(data, "postmaster.pid"));
    const lines = text.split("\n");
    return { processId: Number(lines[0]), status: lines[7]?.trim() };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
