import { existsSync } from "node:fs";
import { join } from "node:path";
import { runTool } from "../common/run_tool.ts";
import { endProcess, lookUpProcess } from "../common/processes.ts";
import { LOCAL_PASSWORD } from "./roles.ts";
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

/** Postgres's own C.UTF-8, which is the same on every platform. */
const BUILTIN_LOCALE = [
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
];

/**
 * Creates an empty database cluster with the superuser `supabase_admin`, if
 * there is none yet.
 *
 * @param options.locale for `initdb`; versions before 17 do not know the default
 */
export async function initializeDatabase(
  place: PostgresPlace,
  { signal, locale = BUILTIN_LOCALE }: {
    readonly signal?: AbortSignal | undefined;
    readonly locale?: readonly string[];
  } = {},
): Promise<void> {
  if (existsSync(place.data)) return;
  // Renamed when complete, so that an incomplete one is never used.
  const unfinished = `${place.data}.new`;
  const passwordFile = `${place.data}.password`;
  if (existsSync(unfinished)) {
    await Deno.remove(unfinished, { recursive: true });
  }
  await Deno.mkdir(unfinished, { mode: 0o700 });
  await Deno.writeTextFile(passwordFile, LOCAL_PASSWORD);
  if (place.user) {
    await Deno.chown(unfinished, place.user.uid, place.user.gid);
  }
  await runTool({
    purpose: "create the database",
    command: join(place.binaries, "bin", "initdb"),
    args: [
      `--pgdata=${unfinished}`,
      "--username=supabase_admin",
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      ...locale,
    ],
    env: POSTGRES_ENV,
    cwd: place.binaries,
    ...(place.user && { user: place.user }),
  }, signal);
  await Deno.remove(passwordFile);
  await Deno.rename(unfinished, place.data);
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
