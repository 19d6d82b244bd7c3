import { LEGACY_DEFAULT_PRIVILEGES_SQL } from "../../scripts/local_stack/migrations.ts";
import postgres from "postgres";
import { createCommand } from "../../scripts/common/processes.ts";
import {
  type Environment,
  functionEnvironment,
} from "../../scripts/common/environment.ts";
import { postgrestService } from "../../scripts/local_stack/postgrest.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { databaseUrls } from "../../scripts/local_stack/databases.ts";
import { startStack } from "../../scripts/local_stack/stack.ts";
import { createMigratedDatabase } from "./databases.ts";
import { freePort } from "./machine.ts";
import { setting } from "./test_environment.ts";

/** A database whose migrations met the default privileges of older projects. */
const LEGACY_DATABASE = "legacy_default_privileges";

export async function temporaryFolder(
  opened: AsyncDisposableStack,
): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-test-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  return folder;
}

/**
 * Makes a state folder with Postgres, its databases and all migrations. To copy it takes a
 * fraction of the time.
 */
export async function makeStackTemplate(
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await using stack = await startStack({
    dataDir: folder,
    functions: false,
    fsync: false,
    signal,
    onProgress: (text) => console.log(`stack: ${text}`),
  });
  await createMigratedDatabase(stack.ports.db, {
    name: LEGACY_DATABASE,
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
}

export async function openLane(template: string, signal: AbortSignal) {
  await using opened = new AsyncDisposableStack();
  const dataDir = await temporaryFolder(opened);
  await copyStackTemplate(template, dataDir);
  const stack = opened.use(
    await startStack({ dataDir, functions: false, fsync: false, signal }),
  );
  // Goes with it, whatever tests that are interrupted leave there.
  const temporary = `${dataDir}/tmp`;
  await Deno.mkdir(temporary);
  const legacy = databaseUrls(stack.ports.db, LEGACY_DATABASE);
  const env = {
    TMPDIR: temporary,
    TEST_DATABASE_URL: stack.dbUrl,
    TEST_LEGACY_DATABASE_URL: legacy.url,
    TEST_PG_SHARE_DIR: `${stack.postgresFolder}/share/postgresql`,
    TEST_API_URL: stack.urls.api,
    TEST_STACK_TEMPLATE: template,
  };
  return Object.assign(opened.move(), { env });
}

export async function copyStackTemplate(
  template: string,
  folder: string,
): Promise<void> {
  // It keeps the accounts: Postgres may run as another one.
  const { success, stderr } = await createCommand("cp", {
    args: ["-a", `${template}/.`, folder],
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/**
 * Starts a stack on free ports, with empty tables. `env` is on top of its functions'
 * local settings; only with `fsync` does Postgres survive a kill.
 */
export async function startOwnStack(
  { env = {}, fsync = false }: { env?: Environment; fsync?: boolean } = {},
) {
  await using opened = new AsyncDisposableStack();
  const dataDir = await temporaryFolder(opened);
  await copyStackTemplate(setting("TEST_STACK_TEMPLATE"), dataDir);
  const log: string[] = [];
  const stack = opened.use(
    await startStack({
      dataDir,
      denoPath: setting("TEST_FUNCTIONS_DENO"),
      env: { ...functionEnvironment({}), ...env },
      fsync,
      onLog: (line) => log.push(line),
    }),
  );
  const sql = postgres(stack.dbUrl, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());
  return Object.assign(opened.move(), { stack, sql, log });
}

/** Starts a PostgREST for any of the server's databases, without a gateway. */
export async function startPostgrest(
  databaseUrl: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  await using opened = new AsyncDisposableStack();
  const { port: db, pathname } = new URL(databaseUrl);
  const cwd = await temporaryFolder(opened);
  const postgrest = await freePort();
  const ports = { db: Number(db), postgrest };
  const { env, ...spec } = postgrestService(cwd, ports);
  const login = new URL(env["PGRST_DB_URI"] ?? "");
  login.pathname = pathname;
  const service = createService({
    ...spec,
    env: { ...env, PGRST_DB_URI: login.href },
  }, { onLog() {}, onUnexpectedEnd: console.error });
  await service.start();
  opened.defer(service.stop);
  const url = `http://127.0.0.1:${postgrest}`;
  return Object.assign(opened.move(), { url });
}
