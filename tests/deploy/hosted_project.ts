/**
 * A project as Supabase hosts it, on this machine: its database, the management
 * API that the CLI deploys to, and, after a deployment, the project's own API.
 *
 * @module
 */
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  LOCAL_PASSWORD,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { platformEnvironment } from "../../scripts/local_stack/functions.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { createDatabase } from "../support/databases.ts";
import { freePort } from "../support/machine.ts";
import { startPostgrest } from "../support/stacks.ts";
import {
  type ManagementApi,
  type ProjectDatabase,
  startManagementApi,
} from "./management_api.ts";
import { serveUpload } from "./serve_upload.ts";

/** A hosted project, before anything was deployed to it. */
export interface HostedProject extends AsyncDisposable {
  readonly api: ManagementApi;
  readonly databaseUrl: string;
  readonly databasePassword: string;
  /** Where its own API is, which answers after `run()`. */
  readonly url: string;
  /** Serves what was deployed by then, with the secrets that were set. */
  run(options: { denoPath: string }): Promise<AsyncDisposable>;
}

/**
 * Makes a project whose database is on a server of this machine.
 *
 * @param server.port of the server
 * @param server.name of the database; the server must have none of that name
 */
export async function createHostedProject(
  { port, name = "hosted" }: { port: number; name?: string },
): Promise<HostedProject> {
  const { url: databaseUrl, adminUrl } = await createDatabase(port, { name });
  const role = `cli_login_${name}`;
  const api = startManagementApi(connectionsTo(adminUrl, role));
  const apiPort = freePort();
  const url = `http://127.0.0.1:${apiPort}`;

  async function run({ denoPath }: { denoPath: string }) {
    await using opened = new AsyncDisposableStack();
    const rest = opened.use(await startPostgrest(databaseUrl));
    const keys = await localKeys();
    const env = {
      ...platformEnvironment({ apiUrl: url, dbUrl: databaseUrl, keys }),
      ...Object.fromEntries(api.secrets),
    };
    async function serve(name: string): Promise<number> {
      const upload = api.uploads.get(name);
      if (upload === undefined) throw new Error(`${name} is not deployed`);
      return opened.use(await serveUpload(upload, { denoPath, env })).port;
    }
    const targets = {
      webhook: await serve("billing-webhook"),
      worker: await serve("billing-worker"),
      rest: Number(new URL(rest.url).port),
    };
    opened.defer((await startGateway(apiPort, { targets, keys })).close);
    return opened.move();
  }

  return {
    api,
    databaseUrl,
    databasePassword: LOCAL_PASSWORD,
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
 * The CLI takes a project's database from the project's name, or from the
 * pooler's connection string if that name does not resolve; it insists on a
 * pooler with a domain and on its usual port. Of several hosts it takes the
 * first that answers, so the second one can be this machine.
 */
function connectionsTo(adminUrl: string, role: string): ProjectDatabase {
  const { port, pathname } = new URL(adminUrl);
  return {
    connectionString:
      `postgresql://postgres:[YOUR-PASSWORD]@pooler.loopback.invalid:6543,127.0.0.1:${port}${pathname}?sslmode=disable`,
    createLoginRole: async () => {
      const password = crypto.randomUUID();
      await withDatabase(adminUrl, (sql) =>
        sql.unsafe(`
          drop role if exists ${role};
          create role ${role} login noinherit in role postgres
            password '${password}'`));
      return { role, password };
    },
  };
}
