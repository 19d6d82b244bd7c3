import { toolEnvironment } from "../common/create_command.ts";
import type { Environment } from "../common/environment.ts";
import { localKeys } from "../common/keys.ts";
import { isMigrated } from "./check_migrations.ts";
import {
  applyMigrations,
  createDatabase,
  databaseUrls,
  setUpServer,
} from "./databases.ts";
import { createFunctionGroup } from "./function_group.ts";
import { startGateway } from "./gateway.ts";
import { initializeDatabase } from "./initialize_database.ts";
import { holdPorts, type StackPorts } from "./ports.ts";
import {
  databaseUser,
  endLeftoverPostgres,
  postgresService,
} from "./postgres.ts";
import { copyPostgresBinaries } from "./postgres_binaries.ts";
import { findPostgrest, postgrestService } from "./postgrest.ts";
import { platformEnvironment } from "./serve_functions.ts";
import { createService, type ServiceObserver } from "./service.ts";
import type { Stack } from "./stack.ts";
import { openStateFolder } from "./state_folder.ts";

/** How to start a stack. */
export interface StackOptions {
  /** The state folder. It is created if it is missing, and kept. */
  readonly dataDir: string;
  /** 0 or undefined for any free port. */
  readonly ports?: Partial<StackPorts>;
  /** The functions' settings, which win over those of the platform. */
  readonly env?: Environment;
  /** The Deno that serves the functions; by default, this one. */
  readonly denoPath?: string;
  /** False to start without the functions. */
  readonly functions?: boolean;
  /** False if the data need not survive a power failure, as in tests. */
  readonly fsync?: boolean;
  /** Once aborted, everything is stopped, and the start fails. */
  readonly signal?: AbortSignal;
  /** Called after each step with a line about it. */
  readonly onProgress?: (text: string) => void;
  /**
   * Called with each line that a part prints: webhook, worker, ...; and with a
   * line of `restart` if a function ends by itself.
   */
  readonly onLog?: ServiceObserver["onLog"];
}

/**
 * Starts Postgres, applies the migrations, starts PostgREST and the functions,
 * and last the gateway.
 *
 * @throws {Error} if a part does not start; the parts before it are stopped
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { signal, onProgress, onLog = () => {} } = options;
  const failed = Promise.withResolvers<string>();
  await using running = new AsyncDisposableStack();

  async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
    signal?.throwIfAborted();
    const beginMs = performance.now();
    const result = await work();
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    onProgress?.(`${name} (${seconds} s)`);
    return result;
  }

  const folder = await openStateFolder(options.dataDir);
  running.defer(folder.close);
  const place = {
    binaries: await copyPostgresBinaries(folder.binaries),
    data: folder.database,
    user: await databaseUser(),
  };
  await endLeftoverPostgres(folder.database, { onProgress });
  using held = await holdPorts(options.ports ?? {});
  const { ports } = held;
  const postgrestCommand = findPostgrest(toolEnvironment()["PATH"] ?? "");

  const observer: ServiceObserver = { onLog, onUnexpectedEnd: failed.resolve };

  const postgres = createService(
    postgresService(place, { port: ports.db, fsync: options.fsync ?? true }),
    observer,
  );
  await step("Postgres 17 runs", async () => {
    await initializeDatabase(place, { signal });
    running.defer(postgres.stop);
    held.free("db");
    await postgres.start(signal);
    await setUpServer(ports.db);
  });

  const { url: dbUrl, adminUrl } = databaseUrls(ports.db);
  await step("Migrations are applied", async () => {
    if (await isMigrated(dbUrl)) return;
    await applyMigrations(dbUrl, { cliHome: folder.cli, signal });
  });

  const postgrest = createService(
    postgrestService(postgrestCommand, { cwd: folder.path, ports }),
    observer,
  );
  await step("PostgREST runs", async () => {
    running.defer(postgrest.stop);
    held.free("postgrest", "postgrestAdmin");
    await postgrest.start(signal);
  });

  const api = `http://127.0.0.1:${ports.api}`;
  const keys = await localKeys();
  const platform = platformEnvironment({ apiUrl: api, dbUrl, keys });
  const functions = createFunctionGroup({
    denoPath: options.denoPath ?? Deno.execPath(),
    env: { ...platform, ...options.env },
  }, { ports, onLog });
  if (options.functions !== false) {
    await step("Functions are served", async () => {
      running.defer(functions.stop);
      held.free("webhook", "worker");
      await functions.start(signal);
    });
  }

  signal?.throwIfAborted();
  held.free("api");
  const gateway = startGateway(ports.api, {
    targets: {
      rest: ports.postgrest,
      get webhook() {
        return functions.ports().webhook;
      },
      get worker() {
        return functions.ports().worker;
      },
    },
    keys,
  });
  running.defer(gateway.close);

  const owned = running.move();
  let stopped: Promise<void> | undefined;
  function stop() {
    return stopped ??= owned.disposeAsync();
  }
  return {
    ports,
    urls: {
      api,
      rest: `${api}/rest/v1`,
      webhook: `${api}/functions/v1/billing-webhook`,
      worker: `${api}/functions/v1/billing-worker`,
      webhookProcess: `http://127.0.0.1:${ports.webhook}`,
      workerProcess: `http://127.0.0.1:${ports.worker}`,
    },
    keys,
    dbUrl,
    adminUrl,
    postgresFolder: place.binaries,
    postgres,
    postgrest,
    restartFunctions: functions.restart,
    reloadFunctions: ({ env, onServed }) =>
      functions.reload({
        env: { ...platform, ...env },
        onServed,
        leave: gateway.leave,
      }),
    createDatabase: async (name, { sqlBefore } = {}) => {
      const urls = await createDatabase(ports.db, { name, sqlBefore });
      await applyMigrations(urls.url, { cliHome: folder.cli });
      return urls;
    },
    failed: failed.promise,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
