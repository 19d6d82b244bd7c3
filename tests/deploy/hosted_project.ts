/**
 * A project as Supabase hosts it, on this machine: its database, the management
 * API that the CLI deploys to, and, after a deployment, the project's own API.
 * And a user who deploys to it, with a CLI that was not used before.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { toolEnvironment } from "../../scripts/local_stack/tools.ts";
import type { Environment } from "../../scripts/common/environment.ts";
import { isListening } from "../../scripts/common/loopback.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { platformEnvironment } from "../../scripts/local_stack/functions.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { createDatabase } from "../support/databases.ts";
import { freePort } from "../support/machine.ts";
import { post } from "../support/send.ts";
import { startPostgrest } from "../support/stacks.ts";
import { openTerminal, type Typed } from "../support/terminal.ts";
import {
  PROJECT_REF,
  startManagementApi,
  type Upload,
} from "./management_api.ts";

/** The endpoint's signing secret at the provider. */
export const SIGNING_SECRET = "whsec_deployed_0123456789";

/** That of the endpoint in live mode. */
export const LIVE_SECRET = "whsec_live_0123456789";

/** A hosted project. */
export type HostedProject = Awaited<ReturnType<typeof createHostedProject>>;

/**
 * Makes a project, to which nothing was deployed yet.
 *
 * @param server.port of a database server on this machine
 * @param server.name of the database; the server must have none of that name
 */
export async function createHostedProject(
  { port, name }: { port: number; name: string },
) {
  const { url: databaseUrl, adminUrl } = await createDatabase(port, { name });
  const role = `cli_login_${name}`;
  // The CLI takes the database from the project's name, or from the pooler's
  // connection string if that name does not resolve; it insists on a pooler with
  // a domain and on its usual port. Of several hosts it takes the first that
  // answers, so the second one can be this machine.
  const api = startManagementApi({
    connectionString:
      `postgresql://postgres:[YOUR-PASSWORD]@pooler.loopback.invalid:6543,127.0.0.1:${port}/${name}?sslmode=disable`,
    createLoginRole: async () => {
      const password = crypto.randomUUID();
      await withDatabase(adminUrl, (sql) =>
        sql.unsafe(`
          drop role if exists ${role};
          create role ${role} login noinherit in role postgres
            password '${password}'`));
      return { role, password };
    },
  });
  const apiPort = freePort();
  const url = `http://127.0.0.1:${apiPort}`;

  /** Serves what was deployed by then, with the secrets that were set. */
  async function run(): Promise<AsyncDisposable> {
    await using opened = new AsyncDisposableStack();
    const rest = opened.use(await startPostgrest(databaseUrl));
    const keys = await localKeys();
    const env = {
      ...platformEnvironment({ apiUrl: url, dbUrl: databaseUrl, keys }),
      ...Object.fromEntries(api.secrets),
    };
    const serve = async (name: string) =>
      opened.use(await serveUpload(api.uploads.get(name)!, env)).port;
    const targets = {
      webhook: await serve("billing-webhook"),
      worker: await serve("billing-worker"),
      rest: Number(new URL(rest.url).port),
    };
    opened.defer((await startGateway(apiPort, { targets, keys })).close);
    // As pg_cron does, which is not here.
    const headers = { apikey: keys.secret };
    await post(`${url}/functions/v1/billing-worker`, { headers });
    return opened.move();
  }

  return {
    api,
    databaseUrl,
    /** Where its own API is, which answers after `run()`. */
    url,
    run,
    async [Symbol.asyncDispose]() {
      await api[Symbol.asyncDispose]();
      // The server's other databases see it too.
      await withDatabase(
        adminUrl,
        (sql) => sql.unsafe(`drop role if exists ${role}`),
      );
    },
  };
}

/**
 * Serves an upload by the platform's Deno, from a folder that holds nothing else,
 * by its own entry point, `deno.json` and `deno.lock`, without downloading
 * anything.
 */
async function serveUpload({ metadata, files }: Upload, env: Environment) {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-upload-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  for (const [path, content] of files) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeFile(join(folder, path), content);
  }
  const port = freePort();
  const { name, entrypoint_path, import_map_path } = metadata;
  const service = createService({
    name,
    command: await edgeDenoPath(),
    args: [
      ...["serve", "--quiet", "--no-prompt", "--allow-net", "--allow-env"],
      ...["--cached-only", "--no-config", "--import-map", import_map_path],
      ...["--lock", import_map_path.replace(/json$/, "lock"), "--frozen"],
      ...["--host", "127.0.0.1", "--port", `${port}`, entrypoint_path],
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: folder,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  }, { onLog() {}, onUnexpectedEnd() {} });
  await service.start();
  opened.defer(service.stop);
  const owned = opened.move();
  return { port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Opens a terminal whose CLI reaches a hosted project, in a folder. */
export async function openDeployer(project: HostedProject, folder: string) {
  const terminal = await openTerminal(folder, {
    "https://<project-ref>.supabase.co": project.url,
    "<project-ref>": PROJECT_REF,
    "<region>": "eu-central-1",
    "sb_secret_...": (await localKeys()).secret,
    "whsec_...": SIGNING_SECRET,
    "whsec_<live>": LIVE_SECRET,
    "whsec_<test>": SIGNING_SECRET,
  });
  const profile = `${terminal.home}/loopback.yaml`;
  // Names under .invalid never resolve, so that the CLI does not find anything
  // else by the project's own names.
  const { url } = project.api;
  await Deno.writeTextFile(
    profile,
    `name: loopback
api_url: ${url}
dashboard_url: ${url}
docs_url: ${url}
project_host: loopback.invalid
`,
  );
  Object.assign(terminal.env, {
    SUPABASE_PROFILE: profile,
    SUPABASE_NO_KEYRING: "1",
    SUPABASE_TELEMETRY_DISABLED: "1",
    SUPABASE_NO_UPDATE_NOTIFIER: "1",
  });
  return terminal;
}

/** Asserts that a command has worked, and returns what it said. */
export function assertWorks({ code, said }: Typed): string {
  assertEquals(code, 0, said);
  return said;
}
