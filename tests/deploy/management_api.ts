import { assert, assertEquals } from "@std/assert";

/** The account's access token; the CLI takes only this form. */
export const ACCESS_TOKEN = `sbp_${"0123456789".repeat(4)}`;

/** The project that the stand-in knows; Supabase makes 20 letters. */
export const PROJECT_REF = "abcdefghijklmnopqrst";

const ID = "00000000-0000-4000-8000-000000000001";

/** What `supabase functions deploy` sends for a function. */
export interface Upload {
  readonly metadata: {
    readonly name: string;
    readonly entrypoint_path: string;
    readonly import_map_path: string;
    readonly verify_jwt: boolean;
  };
  /** Contents by their paths, which are relative to the repository. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * Serves as much of the management API as `supabase link`, `db push --remote`,
 * `functions deploy` and `delete`, `secrets set` and `unset` call, for one project
 * and one account, with as much of the answers as the CLI reads. Whatever else is
 * asked, or asked without the token, is refused and noted.
 *
 * @param database.connectionString What the dashboard shows under Connect, with
 * `[YOUR-PASSWORD]` in it.
 * @param database.createLoginRole Makes a role that may log in for a short while,
 * and act as `postgres`.
 */
export function startManagementApi(database: {
  readonly connectionString: string;
  createLoginRole(): Promise<{ role: string; password: string }>;
}) {
  /** What was asked, as `GET /v1/profile`, in order. */
  const requests: string[] = [];
  /** What was asked that the API does not have, or not in this form. */
  const faults: string[] = [];
  /** What each function is now, by name. */
  const uploads = new Map<string, Upload>();
  /** Of the functions. A test may set some, as a user does in the dashboard. */
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

  const listen = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const server = Deno.serve(listen, async (request) => {
    const asked = `${request.method} ${new URL(request.url).pathname}`;
    requests.push(asked);
    return await answer(request).catch((error) => {
      faults.push(`${asked}: ${error.message}`);
      return Response.json({ message: "Not Found" }, { status: 404 });
    });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    requests,
    faults,
    uploads,
    secrets,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
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

/** How the project's database is reached through the pooler. */
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

/** A function as it is after its deployment. */
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

/** Reads the multipart form in which the Supabase CLI uploads a function. */
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
