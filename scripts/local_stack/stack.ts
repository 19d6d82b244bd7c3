import { toolEnvironment } from "../common/create_command.ts";
import type { Environment } from "../common/environment.ts";
import { type LocalKeys, localKeys } from "../common/keys.ts";
import {
  createDatabase,
  type DatabaseUrls,
  databaseUrls,
  setUpServer,
} from "./databases.ts";
import {
  describeReloads,
  functionService,
  platformEnvironment,
} from "./functions.ts";
import { startGateway } from "./gateway.ts";
import { applyMigrations, updateDatabase } from "./migrations.ts";
import { holdPorts, type StackPorts } from "./ports.ts";
import {
  copyPostgresBinaries,
  databaseUser,
  initializeDatabase,
  postgresService,
} from "./postgres.ts";
import { findPostgrest, postgrestService } from "./postgrest.ts";
import {
  createService,
  type Service,
  type ServiceObserver,
} from "./service.ts";
import { openStateFolder } from "./state_folder.ts";

/** A stack that runs. To dispose of it stops all parts, last started first. */
export interface Stack extends AsyncDisposable {
  readonly ports: StackPorts;
  readonly urls: {
    /** The gateway, and what is behind it. */
    readonly api: string;
    readonly rest: string;
    readonly webhook: string;
    readonly worker: string;
    /** The webhook's own process, without the gateway. */
    readonly webhookProcess: string;
  };
  readonly keys: LocalKeys;
  /** The database, for the role `postgres`. */
  readonly dbUrl: string;
  /** The database, for the superuser. */
  readonly adminUrl: string;
  /** The folder with Postgres's `bin`, `lib` and `share`. */
  readonly postgresFolder: string;
  /** For fault tests, which kill it and start it again. */
  readonly postgres: Service;
  readonly postgrest: Service;
  /** Stops the functions, and serves them with other settings. */
  readonly restartFunctions: (env: Environment) => Promise<void>;
  /** Creates another database beside the first, with all migrations. */
  readonly createDatabase: (
    name: string,
    options?: { readonly sqlBefore?: string },
  ) => Promise<DatabaseUrls>;
  /** Resolves with the reason if a part ends without being stopped. */
  readonly failed: Promise<string>;
}

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
  /** Whether a saved change of a function is served at once. */
  readonly watch?: boolean;
  /** Whether Ctrl-C at the terminal does not reach the parts. */
  readonly detached?: boolean;
  /** False if the data need not survive a power failure, as in tests. */
  readonly fsync?: boolean;
  /** Once aborted, everything is stopped, and the start fails. */
  readonly signal?: AbortSignal;
  /** Called after each step with a line about it. */
  readonly onProgress?: (text: string) => void;
  /** Called with each line of a part, and with lines of `reload`. */
  readonly onLog?: ServiceObserver["onLog"];
}

/**
 * Starts Postgres, applies the migrations, starts PostgREST and the functions,
 * and last the gateway.
 *
 * @throws {Error} if a part does not start; the parts before it are stopped
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { signal, onLog = () => {}, watch, detached = false } = options;
  const failed = Promise.withResolvers<string>();
  await using running = new AsyncDisposableStack();

  async function step(name: string, work: () => Promise<void>) {
    signal?.throwIfAborted();
    const beginMs = performance.now();
    await work();
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    options.onProgress?.(`${name} (${seconds} s)`);
  }

  const folder = await openStateFolder(options.dataDir);
  running.defer(folder.close);
  const cliHome = folder.cli;
  const place = {
    binaries: await copyPostgresBinaries(folder.binaries),
    data: folder.database,
    user: await databaseUser(),
  };
  using held = await holdPorts(options.ports ?? {});
  const { ports } = held;
  const observer: ServiceObserver = {
    onLog,
    onUnexpectedEnd: failed.resolve,
    onSpawn: folder.record,
    detached,
  };

  const postgres = createService(
    postgresService(place, { port: ports.db, fsync: options.fsync ?? true }),
    observer,
  );
  const postgrest = createService(
    postgrestService(findPostgrest(toolEnvironment()["PATH"] ?? ""), {
      cwd: folder.path,
      ports,
    }),
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
  await step(
    "Migrations are applied",
    () => updateDatabase(dbUrl, { cliHome, signal }),
  );
  await step("PostgREST runs", async () => {
    running.defer(postgrest.stop);
    held.free("postgrest", "postgrestAdmin");
    await postgrest.start(signal);
  });

  const api = `http://127.0.0.1:${ports.api}`;
  const keys = await localKeys();
  let functions: readonly Service[] = [];
  async function stopFunctions() {
    await Promise.all(functions.map((one) => one.stop()));
  }
  async function startFunctions(env: Environment = {}) {
    const platform = platformEnvironment({ apiUrl: api, dbUrl, keys });
    const served = {
      denoPath: options.denoPath ?? Deno.execPath(),
      env: { ...platform, ...env },
      watch,
    };
    functions = (["webhook", "worker"] as const).map((name) =>
      createService(
        functionService(`billing-${name}`, { ...served, port: ports[name] }),
        { ...observer, onLog: watch ? describeReloads(onLog) : onLog },
      )
    );
    await Promise.all(functions.map((one) => one.start(signal)));
  }
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
  running.defer((await startGateway(ports.api, { targets, keys })).close);

  const owned = running.move();
  return {
    ports,
    urls: {
      api,
      rest: `${api}/rest/v1`,
      webhook: `${api}/functions/v1/billing-webhook`,
      worker: `${api}/functions/v1/billing-worker`,
      webhookProcess: `http://127.0.0.1:${ports.webhook}`,
    },
    keys,
    dbUrl,
    adminUrl,
    postgresFolder: place.binaries,
    postgres,
    postgrest,
    restartFunctions: async (env) => {
      await stopFunctions();
      await startFunctions(env);
    },
    createDatabase: async (name, { sqlBefore } = {}) => {
      const urls = await createDatabase(ports.db, { name, sqlBefore });
      await applyMigrations(urls.url, { cliHome });
      return urls;
    },
    failed: failed.promise,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
