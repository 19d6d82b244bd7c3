import { join } from "node:path";
import { runSupabaseCli } from "./supabase_cli.ts";
import { readUpload, type Upload } from "./upload.ts";

const PROJECT = "abcdefghijklmnopqrst";
// The CLI takes only a token of this form.
const TOKEN = `sbp_${"0123456789".repeat(4)}`;

/**
 * Deploys a function with the real Supabase CLI, to a stand-in for Supabase's
 * management API on this machine.
 *
 * @returns what the CLI has uploaded
 * @throws {Error} With the CLI's output, where it does not deploy.
 */
export async function deployFunction(name: string): Promise<Upload> {
  const uploads: Upload[] = [];
  await using server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
  }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const expected = request.method === "POST" &&
      pathname === `/v1/projects/${PROJECT}/functions/deploy` &&
      searchParams.get("slug") === name &&
      request.headers.get("authorization") === `Bearer ${TOKEN}`;
    if (!expected) return Response.json({ message: "?" }, { status: 404 });
    uploads.push(await readUpload(request));
    return Response.json(deployed(name), { status: 201 });
  });

  const home = await Deno.makeTempDir({ prefix: "billing-webhook-deploy-" });
  try {
    const profile = join(home, "loopback.yaml");
    await Deno.writeTextFile(profile, profileOf(server.addr.port));
    await runSupabaseCli([
      "functions",
      "deploy",
      name,
      "--use-api",
      "--project-ref",
      PROJECT,
      "--profile",
      profile,
      "--yes",
    ], { home, env: { SUPABASE_ACCESS_TOKEN: TOKEN } });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
  const [upload, ...more] = uploads;
  if (upload === undefined || more.length > 0) {
    throw new Error(`The CLI uploaded ${uploads.length} times, not once.`);
  }
  return upload;
}

function profileOf(port: number): string {
  const url = `http://127.0.0.1:${port}`;
  return [
    "name: loopback",
    `api_url: ${url}`,
    `dashboard_url: ${url}`,
    `docs_url: ${url}`,
    "project_host: 127.0.0.1",
    "",
  ].join("\n");
}

/** What the management API answers: the function as it is now. */
function deployed(name: string) {
  return {
    id: "00000000-0000-4000-8000-000000000001",
    slug: name,
    name,
    status: "ACTIVE",
    version: 1,
    created_at: 1_770_000_000_000,
    updated_at: 1_770_000_000_000,
    verify_jwt: false,
  };
}
