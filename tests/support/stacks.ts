/** Stacks, and parts of one, that only one test uses. */
import postgres from "postgres";
import { createCommand } from "../../scripts/common/create_command.ts";
import {
  type Environment,
  functionEnvironment,
} from "../../scripts/common/environment.ts";
import { postgrestService } from "../../scripts/local_stack/postgrest.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { startStack } from "../../scripts/local_stack/stack.ts";
import {
  createMigratedDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
} from "./databases.ts";
import { freePort, processTree } from "./machine.ts";
import { setting } from "./test_environment.ts";

/** A database whose migrations met the default privileges of older projects. */
export const LEGACY_DATABASE = "legacy_default_privileges";

/**
 * Makes a state folder with what each stack of the tests begins with: Postgres,
 * its databases and all migrations. To copy it takes a fraction of the time.
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

/** Copies a template into another folder, for {@linkcode startStack}. */
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
  const dataDir = await Deno.makeTempDir();
  opened.defer(() => Deno.remove(dataDir, { recursive: true }));
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

/** Sends SIGKILL to what serves a function of a stack, by the function's port. */
export async function killFunction(port: number): Promise<void> {
  for (const [pid, { command }] of await processTree(Deno.pid)) {
    if (command.includes(`--port ${port}`)) Deno.kill(pid, "SIGKILL");
  }
}

/** Starts a PostgREST for any of the server's databases, without a gateway. */
export async function startPostgrest(
  databaseUrl: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  await using opened = new AsyncDisposableStack();
  const { port: db, pathname } = new URL(databaseUrl);
  const cwd = await Deno.makeTempDir();
  opened.defer(() => Deno.remove(cwd, { recursive: true }));
  const postgrest = freePort();
  const ports = { db: Number(db), postgrest, postgrestAdmin: freePort() };
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
