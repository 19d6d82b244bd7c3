/**
 * What the API offers to callers without a secret key: nothing. PostgREST describes
 * what the caller may use, so that its description shows every table, view and
 * function that was left open. supabase/tests/privileges.test.sql has the rights.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { localKeys, signToken } from "../../scripts/local_stack/keys.ts";
import { startPostgrest } from "../support/stacks.ts";
import { setting } from "../support/test_environment.ts";

const { secret, publishable, anon, serviceRole } = await localKeys();
const user = await signToken({
  role: "authenticated",
  sub: crypto.randomUUID(),
  exp: Math.floor(Date.now() / 1000) + 600,
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

const gateway = `${setting("TEST_API_URL")}/rest/v1`;
// All that is new was granted to everybody there: as in older projects.
const postgrest = await startPostgrest(setting("TEST_LEGACY_DATABASE_URL"));
Deno.test.afterAll(async () => {
  await postgrest[Symbol.asyncDispose]();
});

const CALLERS: [url: string, headers: Record<string, string>][] = [
  [gateway, { apikey: publishable }],
  [gateway, { apikey: anon, ...bearer(anon) }],
  [gateway, { apikey: publishable, ...bearer(user) }],
  [postgrest.url, {}],
  [postgrest.url, { apikey: publishable }],
  [postgrest.url, bearer(anon)],
  [postgrest.url, bearer(user)],
];

async function get(url: string, headers: Record<string, string>) {
  const answer = await fetch(url, { headers });
  const { code, paths = {} } = JSON.parse(await answer.text() || "{}");
  return { status: answer.status, code, paths: Object.keys(paths) };
}

Deno.test("callers without a secret key are offered nothing, also with the privileges of older projects", async () => {
  for (const [url, headers] of CALLERS) {
    assertEquals((await get(`${url}/`, headers)).paths, ["/"]);
    for (const path of ["/billing_subscriptions", "/rpc/billing_has_access"]) {
      const query = path.includes("rpc") ? "?account_id=x" : "";
      const { status, code } = await get(url + path + query, headers);
      assert(status === 401 || status === 403, `${path}: ${status}`);
      assertEquals(code, "42501", path);
    }
  }
  // With it, the description has both.
  const { paths } = await get(`${gateway}/`, { apikey: secret });
  assert(paths.includes("/billing_subscriptions"), `${paths}`);
  assert(paths.includes("/rpc/billing_apply_events"), `${paths}`);
});

Deno.test("the gateway lets nothing through without a key, and offers schema billing to nobody", async () => {
  for (const path of ["/", "/billing_subscriptions", "/rpc/x"]) {
    assertEquals((await get(gateway + path, {})).status, 401, path);
  }
  const headers = { apikey: secret, "accept-profile": "billing" };
  const { status, code } = await get(`${gateway}/subscriptions`, headers);
  assertEquals([status, code], [406, "PGRST106"]);
});

Deno.test("PostgREST lets no page of another origin use the key that everybody knows", async () => {
  const url = `${postgrest.url}/billing_subscriptions`;
  const origin = "https://page.example";
  // Fetch standard, "CORS protocol": what a browser asks, and looks for.
  const preflight = await fetch(url, {
    method: "OPTIONS",
    headers: {
      Origin: origin,
      "Access-Control-Request-Method": "GET",
      "Access-Control-Request-Headers": "authorization",
    },
  });
  await preflight.body?.cancel();
  assertEquals(preflight.headers.get("access-control-allow-headers"), null);
  const answer = await fetch(url, {
    headers: { Origin: origin, ...bearer(serviceRole) },
  });
  await answer.body?.cancel();
  assertEquals(answer.status, 200);
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
});
