import { assert, assertEquals } from "@std/assert";
import {
  deployedFunction,
  poolerConfig,
  PROFILE,
  PROJECT,
  PROJECT_REF,
} from "./management_answers.ts";
import { readUpload, type Upload } from "./upload.ts";

/** The account's access token; the CLI takes only this form. */
export const ACCESS_TOKEN = `sbp_${"0123456789".repeat(4)}`;

/** What the project's database is to the management API. */
export interface ProjectDatabase {
  /** What the dashboard shows under Connect, with `[YOUR-PASSWORD]` in it. */
  readonly connectionString: string;
  /** Makes a role that may log in for a short while, and act as `postgres`. */
  createLoginRole(): Promise<{ role: string; password: string }>;
}

/** A stand-in for Supabase's management API. */
export interface ManagementApi extends AsyncDisposable {
  readonly url: string;
  /** What was asked, as `GET /v1/profile`, in order. */
  readonly requests: readonly string[];
  /** What was asked that the API does not have, or not in this form. */
  readonly faults: readonly string[];
  /** What each function is now, by name. */
  readonly uploads: ReadonlyMap<string, Upload>;
  /** Of the functions. A test may set some, as a user does in the dashboard. */
  readonly secrets: Map<string, string>;
}

/**
 * Serves as much of the management API as `supabase link`, `db push --remote`,
 * `functions deploy` and `delete`, `secrets set` and `unset` call, for one project
 * and one account.
 * Whatever else is asked, or asked without the token, is refused and noted.
 *
 * @param options.database If it is left out, what concerns it is refused too.
 */
export function startManagementApi(
  { database }: { database?: ProjectDatabase } = {},
): ManagementApi {
  const requests: string[] = [];
  const faults: string[] = [];
  const uploads = new Map<string, Upload>();
  const secrets = new Map<string, string>();

  async function answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const slug = pathname.split("/").at(-1) ?? "";
    assertEquals(
      request.headers.get("authorization"),
      `Bearer ${ACCESS_TOKEN}`,
      "the access token",
    );
    switch (`${request.method} ${pathname.replace(PROJECT_REF, "REF")}`) {
      case "GET /v1/profile":
        return Response.json(PROFILE);
      case "GET /v1/projects/REF":
        return Response.json(PROJECT);
      case "GET /v1/projects/REF/api-keys":
        return Response.json([{ name: "service_role", api_key: "key" }]);
      case "GET /v1/projects/REF/config/storage":
        // The CLI does without it, as it does for a token of fewer rights.
        return Response.json({ message: "Forbidden" }, { status: 403 });
      case "GET /v1/projects/REF/config/database/pooler":
        if (!database) break;
        return Response.json([poolerConfig(database.connectionString)]);
      case "POST /v1/projects/REF/cli/login-role":
        if (!database) break;
        assertEquals(await request.json(), { read_only: false });
        return Response.json({
          ...await database.createLoginRole(),
          ttl_seconds: 300,
        }, { status: 201 });
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
        return Response.json(deployedFunction(name), { status: 201 });
      }
      case `DELETE /v1/projects/REF/functions/${slug}`:
        assert(uploads.delete(slug), `no function ${slug}`);
        return new Response(null, { status: 200 });
    }
    throw new Error("There is no such route");
  }

  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
  }, async (request) => {
    const { pathname } = new URL(request.url);
    const asked = `${request.method} ${pathname}`;
    requests.push(asked);
    try {
      return await answer(request);
    } catch (error) {
      faults.push(`${asked}: ${(error as Error).message}`);
      return Response.json({ message: "Not Found" }, { status: 404 });
    }
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

/**
 * The profile by which the CLI finds the stand-in instead of Supabase, in
 * YAML. Names under `.invalid` never resolve, so that it cannot find anything
 * else by the project's own names.
 */
export function profileOf({ url }: ManagementApi): string {
  return [
    "name: loopback",
    `api_url: ${url}`,
    `dashboard_url: ${url}`,
    `docs_url: ${url}`,
    "project_host: loopback.invalid",
    "",
  ].join("\n");
}
