import {
  databaseUser,
  endLeftoverPostgres,
  postgresService,
} from "./postgres.ts";
import {
  applyMigrations,
  createDatabase,
  databaseUrls,
  setUpServer,
} from "./databases.ts";
import { createFunctionGroup } from "./function_group.ts";
import { startGateway } from "./gateway.ts";
import { initializeDatabase } from "./initialize_database.ts";
import { localKeys } from "../common/keys.ts";
import { platformEnvironment } from "./serve_functions.ts";
import { choosePorts } from "./ports.ts";
import { copyPostgresBinaries } from "./postgres_binaries.ts";
import { findPostgrest, postgrestService } from "./postgrest.ts";
import { createService, type ServiceObserver } from "./service.ts";
import type { Stack, StackOptions } from "./stack.ts";
import { openStateFolder } from "./state_folder.ts";
import { toolEnvironment } from "../common/create_command.ts";

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
  const ports = await choosePorts(options.ports ?? {});
  const postgrestCommand = findPostgrest(toolEnvironment()["PATH"] ?? "");

  const observer: ServiceObserver = { onLog, onUnexpectedEnd: failed.resolve };

  const postgres = createService(
    postgresService(place, { port: ports.db, fsync: options.fsync ?? true }),
    observer,
  );
  await step("Postgres 17 runs", async () => {
    await initializeDatabase(place, signal);
    running.defer(postgres.stop);
    await postgres.start(signal);
    await setUpServer(ports.db);
  });

  const { url: dbUrl, adminUrl } = databaseUrls(ports.db);
  const migration = { cliHome: folder.cli, signal };
  await step("Migrations are applied", () => applyMigrations(dbUrl, migration));

  const postgrest = createService(
    postgrestService(postgrestCommand, { cwd: folder.path, ports }),
    observer,
  );
  await step("PostgREST runs", async () => {
    running.defer(postgrest.stop);
    await postgrest.start(signal);
  });

  const api = `http://127.0.0.1:${ports.api}`;
  const keys = await localKeys();
  const functions = createFunctionGroup({
    denoPath: options.denoPath ?? Deno.execPath(),
    env: {
      ...platformEnvironment({ apiUrl: api, dbUrl, keys }),
      ...options.env,
    },
  }, { ports, observer });
  if (options.functions !== false) {
    await step("Functions are served", async () => {
      running.defer(functions.stop);
      await functions.start(signal);
    });
  }

  signal?.throwIfAborted();
  const { webhook, worker, postgrest: rest } = ports;
  const gateway = await startGateway(ports.api, {
    targets: { webhook, worker, rest },
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
      webhookProcess: `http://127.0.0.1:${webhook}`,
      workerProcess: `http://127.0.0.1:${worker}`,
    },
    keys,
    dbUrl,
    adminUrl,
    postgresFolder: place.binaries,
    postgres,
    postgrest,
    restartFunctions: functions.restart,
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
