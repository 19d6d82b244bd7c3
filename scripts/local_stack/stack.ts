import { type Environment, isFromPackage } from "../common/environment.ts";
import { localKeys } from "./keys.ts";
import { databaseUrls, setUpServer } from "./databases.ts";
import {
  DENO_LINES,
  functionService,
  platformEnvironment,
} from "./functions.ts";
import { startGateway } from "./gateway.ts";
import { updateDatabase, updateProjectDatabase } from "./migrations.ts";
import { holdPorts, type StackPorts } from "./ports.ts";
import {
  copyPostgresBinaries,
  databaseUser,
  initializeDatabase,
  postgresService,
} from "./postgres.ts";
import { postgrestService } from "./postgrest.ts";
import {
  createService,
  type Service,
  type ServiceObserver,
} from "./service.ts";
import { openStateFolder } from "./state_folder.ts";

/** A running stack. Disposing of it stops its parts, the last started first. */
export type Stack = Awaited<ReturnType<typeof startStack>>;

interface StackOptions {
  readonly dataDir: string; // created if it is missing, and kept
  readonly ports?: Partial<StackPorts>; // 0 or undefined for any free port
  readonly env?: Environment; // the functions' settings
  readonly denoPath?: string; // what serves the functions; by default, this one
  readonly functions?: boolean; // false to start without them
  readonly watch?: boolean; // whether a saved change of a function is served
  readonly detached?: boolean; // whether Ctrl-C does not reach the parts
  readonly fsync?: boolean; // false if the data need not survive, as in tests
  readonly signal?: AbortSignal; // once aborted, everything is stopped
  readonly onProgress?: (text: string) => void; // called after each step
  readonly onLog?: ServiceObserver["onLog"];
}

/**
 * Starts Postgres, applies the migrations, and starts PostgREST, the functions
 * and the gateway. If a part does not start, those before it are stopped.
 */
export async function startStack(options: StackOptions) {
  const { signal, onLog = () => {}, fsync = true } = options;
  const failed = Promise.withResolvers<string>();
  await using running = new AsyncDisposableStack();

  const folder = await openStateFolder(options.dataDir);
  running.defer(folder.close);
  const binaries = await copyPostgresBinaries(folder.binaries);
  const user = await databaseUser();
  const place = { binaries, data: folder.database, user };

  using held = await holdPorts(options.ports ?? {});
  const { ports } = held;
  const urls = urlsOf(ports);
  const { url: dbUrl, adminUrl } = databaseUrls(ports.db);
  const keys = await localKeys();

  const observer: ServiceObserver = {
    onLog: (line, source) => DENO_LINES.test(line) || onLog(line, source),
    onUnexpectedEnd: failed.resolve,
    onSpawn: folder.record,
    detached: options.detached ?? false,
  };
  const postgres = createService(
    postgresService(place, { port: ports.db, fsync }),
    observer,
  );
  const postgrest = createService(
    postgrestService(folder.path, ports),
    observer,
  );

  const { denoPath = Deno.execPath(), watch } = options;
  const platform = platformEnvironment({ apiUrl: urls.api, dbUrl, keys });
  let functions: readonly Service[] = [];
  async function startFunctions(settings?: Environment) {
    const env = { ...platform, ...settings };
    functions = (["webhook", "worker"] as const).map((name) => {
      const served = { denoPath, env, watch, port: ports[name] };
      return createService(
        functionService(`billing-${name}`, served),
        observer,
      );
    });
    await Promise.all(functions.map((service) => service.start(signal)));
  }
  async function stopFunctions() {
    await Promise.all(functions.map((service) => service.stop()));
  }

  async function step(name: string, work: () => Promise<void>) {
    signal?.throwIfAborted();
    const beginMs = performance.now();
    await work();
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    options.onProgress?.(`${name} (${seconds} s)`);
  }

  await step("Postgres 17 runs", async () => {
    await initializeDatabase(place, signal);
    running.defer(postgres.stop);
    held.free("db");
    await postgres.start(signal);
    await setUpServer(ports.db);
  });

  let notes: readonly string[] = [];
  await step("Migrations are applied", async () => {
    if (isFromPackage) notes = await updateProjectDatabase(dbUrl, { signal });
    else await updateDatabase(dbUrl, { cliHome: folder.cli, signal });
  });
  for (const note of notes) options.onProgress?.(note);

  await step("PostgREST runs", async () => {
    running.defer(postgrest.stop);
    held.free("postgrest");
    await postgrest.start(signal);
  });

  running.defer(stopFunctions);
  if (options.functions !== false) {
    await step("Functions are served", async () => {
      held.free("webhook", "worker");
      await startFunctions(options.env);
    });
  }

  signal?.throwIfAborted();
  held.free("api");
  const targets = { ...ports, rest: ports.postgrest };
  const gateway = await startGateway(ports.api, { targets, keys });
  running.defer(gateway.close);

  const owned = running.move();
  return {
    ports,
    urls,
    keys,
    /** The database, for the role `postgres`, and for the superuser. */
    dbUrl,
    adminUrl,
    postgresFolder: binaries,
    /** For fault tests, which kill it and start it again. */
    postgres,
    postgrest,
    restartFunctions: async (settings: Environment) => {
      await stopFunctions();
      await startFunctions(settings);
    },
    /** Resolves with the reason if a part ends without being stopped. */
    failed: failed.promise,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function urlsOf(ports: StackPorts) {
  const api = `http://127.0.0.1:${ports.api}`;
  return {
    api,
    rest: `${api}/rest/v1`,
    webhook: `${api}/functions/v1/billing-webhook`,
    worker: `${api}/functions/v1/billing-worker`,
    /** The webhook's own process, without the gateway. */
    webhookProcess: `http://127.0.0.1:${ports.webhook}`,
  };
}
