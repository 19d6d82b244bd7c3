/**
 * A project as Supabase hosts it, on this machine: its database, the management API that
 * the CLI deploys to, and the project's own API; and a user who deploys to it.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { BUILT_OPTIONS } from "../../scripts/common/built.ts";
import {
  type Environment,
  REPOSITORY,
} from "../../scripts/common/environment.ts";
import { toolEnvironment } from "../../scripts/local_stack/tools.ts";
import { isListening } from "../../scripts/common/loopback.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { platformEnvironment } from "../../scripts/local_stack/functions.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { createDatabase } from "../support/databases.ts";
import { freePort, serveHere } from "../support/machine.ts";
import { post } from "../support/send.ts";
import { startPostgrest } from "../support/stacks.ts";
import { NPX, openTerminal, type Typed } from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";

export const SIGNING_SECRET = "whsec_deployed_0123456789";
export const LIVE_SECRET = "whsec_live_0123456789";

export type HostedProject = Awaited<ReturnType<typeof createHostedProject>>;

export async function createHostedProject(
  { port, name }: { port: number; name: string },
) {
  const { url: databaseUrl, adminUrl } = await createDatabase(port, { name });
  const role = `cli_login_${name}`;
  // The CLI takes the database from the pooler's connection string if the project's name
  // does not resolve, and insists on a pooler with a domain and on its usual port. Of
  // several hosts it takes the first that answers: the second one, this machine.
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
  const apiPort = await freePort();
  const url = `http://127.0.0.1:${apiPort}`;

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

    // The schedule wakes the worker like this; pg_cron is not here.
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
 * Serves an upload from a folder that holds nothing else, and without downloading anything.
 * A clone's sources have an import map, and need packages. The platform's Deno cannot read
 * the lock file, so it serves only what `add` has put into a project.
 */
async function serveUpload({ metadata, files }: Upload, env: Environment) {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-upload-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  for (const [path, content] of files) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeFile(join(folder, path), content);
  }

  const port = await freePort();
  const { name, entrypoint_path, import_map_path } = metadata;
  const isBuilt = import_map_path === "";
  const options = isBuilt ? BUILT_OPTIONS : [
    "--cached-only",
    "--frozen",
    `--config=${REPOSITORY}/deno.json`,
    `--import-map=${import_map_path}`,
  ];

  const service = createService({
    name,
    command: isBuilt ? setting("TEST_FUNCTIONS_DENO") : Deno.execPath(),
    args: [
      "serve",
      "--quiet",
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      ...options,
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      entrypoint_path,
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: folder,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  }, { onLog() {}, onUnexpectedEnd() {} });
  await service.start();
  opened.defer(service.stop);
  return Object.assign(opened.move(), { port });
}

export async function openDeployer(
  project: HostedProject,
  { folder, clone = folder }: { folder: string; clone?: string },
) {
  const terminal = await openTerminal(folder, {
    [NPX]: `deno task --config '${clone}/deno.json'`,
    "https://<project-ref>.supabase.co": project.url,
    "<project-ref>": PROJECT_REF,
    "<region>": "eu-central-1",
    "sb_secret_...": (await localKeys()).secret,
    "whsec_...": SIGNING_SECRET,
    "whsec_<live>": LIVE_SECRET,
    "whsec_<test>": SIGNING_SECRET,
  });

  const profile = `${terminal.home}/loopback.yaml`;
  const { url } = project.api;
  // Names under .invalid never resolve, so the CLI finds nothing else by them.
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

export function assertWorks({ code, output }: Typed): string {
  assertEquals(code, 0, output);
  return output;
}

export const ACCESS_TOKEN = `sbp_${"0123456789".repeat(4)}`;

/** The project that the stand-in knows; Supabase makes 20 letters. */
const PROJECT_REF = "abcdefghijklmnopqrst";

const ID = "00000000-0000-4000-8000-000000000001";

interface Upload {
  readonly metadata: {
    readonly name: string;
    readonly entrypoint_path: string;
    readonly import_map_path: string;
    readonly verify_jwt: boolean;
  };
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * Serves as much of the management API as the CLI's commands call, for one project and
 * one account, with as much of the answers as the CLI reads. Whatever else is asked, or
 * asked without the token, is refused and noted.
 */
function startManagementApi(database: {
  /** What the dashboard shows under Connect, with `[YOUR-PASSWORD]` in it. */
  readonly connectionString: string;
  /** Makes a role that may log in for a short while, and act as `postgres`. */
  createLoginRole(): Promise<{ role: string; password: string }>;
}) {
  const requests: string[] = [];
  const faults: string[] = [];
  const uploads = new Map<string, Upload>();
  /** The functions' settings. A test may set some, as a user does in the dashboard. */
  const secrets = new Map<string, string>();

  async function answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const slug = pathname.split("/").at(-1) ?? "";
    const token = request.headers.get("authorization");
    assertEquals(token, `Bearer ${ACCESS_TOKEN}`, "the access token");
    switch (`${request.method} ${pathname.replace(PROJECT_REF, "REF")}`) {
      case "GET /v1/profile":
        return Response.json({
          gotrue_id: ID,
          primary_email: "owner@example.com",
          username: "owner",
        });
      case "GET /v1/projects/REF":
        return Response.json(PROJECT);
      case "GET /v1/projects/REF/api-keys":
        return Response.json([{ name: "service_role", api_key: "key" }]);
      case "GET /v1/projects/REF/config/storage":
        // The CLI does without it, as it does for a token of fewer rights.
        return Response.json({ message: "Forbidden" }, { status: 403 });
      case "GET /v1/projects/REF/config/database/pooler":
        return Response.json([pooler(database.connectionString)]);
      case "POST /v1/projects/REF/cli/login-role": {
        assertEquals(await request.json(), { read_only: false });
        const role = await database.createLoginRole();
        return Response.json({ ...role, ttl_seconds: 300 }, { status: 201 });
      }
      case "POST /v1/projects/REF/secrets":
        for (const { name, value, ...rest } of await request.json()) {
          assertEquals(rest, {});
          secrets.set(String(name), String(value));
        }
        return new Response(null, { status: 201 });
      case "DELETE /v1/projects/REF/secrets":
        for (const name of await request.json()) {
          assert(secrets.delete(String(name)), `no secret ${name}`);
        }
        return new Response(null, { status: 200 });
      case "POST /v1/projects/REF/functions/deploy": {
        const upload = await readUpload(request);
        const { name } = upload.metadata;
        assertEquals(searchParams.get("slug"), name);
        uploads.set(name, upload);
        return Response.json(deployed(name), { status: 201 });
      }
      case `DELETE /v1/projects/REF/functions/${slug}`:
        assert(uploads.delete(slug), `no function ${slug}`);
        return new Response(null, { status: 200 });
    }
    throw new Error("There is no such route");
  }

  const server = serveHere(async (request) => {
    const asked = `${request.method} ${new URL(request.url).pathname}`;
    requests.push(asked);
    return await answer(request).catch((error) => {
      faults.push(`${asked}: ${error.message}`);
      return Response.json({ message: "Not Found" }, { status: 404 });
    });
  });
  return { ...server, requests, faults, uploads, secrets };
}

const PROJECT = {
  id: PROJECT_REF,
  ref: PROJECT_REF,
  organization_id: "organization",
  organization_slug: "organization",
  name: "billing",
  region: "eu-central-1",
  created_at: "2026-02-02T02:40:00Z",
  status: "ACTIVE_HEALTHY",
  database: {
    host: `db.${PROJECT_REF}.loopback.invalid`,
    version: "17.6.1.011",
    postgres_engine: "17",
    release_channel: "ga",
  },
};

function pooler(connectionString: string) {
  return {
    identifier: PROJECT_REF,
    database_type: "PRIMARY",
    is_using_scram_auth: true,
    db_user: "postgres",
    db_host: "pooler.loopback.invalid",
    db_port: 6543,
    db_name: "postgres",
    connection_string: connectionString,
    connectionString,
    default_pool_size: null,
    max_client_conn: null,
    pool_mode: "transaction",
  };
}

function deployed(name: string) {
  return {
    id: ID,
    slug: name,
    name,
    status: "ACTIVE",
    version: 1,
    created_at: 1_770_000_000_000,
    updated_at: 1_770_000_000_000,
    verify_jwt: false,
  };
}

async function readUpload(request: Request): Promise<Upload> {
  const form = await request.formData();
  const parts = form.getAll("file").filter((part) => part instanceof File);
  const files = await Promise.all(
    parts.map(async (part) => [part.name, await part.bytes()] as const),
  );
  return {
    metadata: JSON.parse(String(form.get("metadata"))),
    files: new Map(files),
  };
}
