/** What the API offers to callers without a secret key: nothing. */
import { assert, assertEquals } from "@std/assert";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { localKeys, signToken } from "../../scripts/local_stack/keys.ts";
import { DENIED } from "../support/app_page.ts";
import {
  createMigratedDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
} from "../support/databases.ts";
import { startPostgrest } from "../support/stacks.ts";
import { setting } from "../support/test_environment.ts";

const { anon, serviceRole } = await localKeys();
const user = await signToken({
  role: "authenticated",
  sub: crypto.randomUUID(),
  exp: Math.floor(Date.now() / 1000) + 600,
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function ask(url: string, headers: HeadersInit, body?: object) {
  const method = body ? "POST" : "GET";
  const init = body && { body: JSON.stringify(body) };
  const answer = await fetch(url, { method, headers, ...init });
  const { code } = JSON.parse(await answer.text() || "{}");
  return { status: answer.status, code };
}

/** What the API reaches: the windows, and the functions with their arguments. */
const REACHED = `
  select '/' || relname as path, null as body from pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')
  union all
  select '/rpc/' || proname, coalesce((
    select jsonb_object_agg(name, null) from unnest(proargnames[1:pronargs]) as name
  ), '{}')
  from pg_proc where pronamespace = 'public'::regnamespace`;

Deno.test("rebuilt from a squash or a dump under the default privileges of older projects, windows and functions work for the receiver and for nobody else", async () => {
  const { url } = await createMigratedDatabase(
    Number(new URL(setting("TEST_DATABASE_URL")).port),
    { name: "rebuilt", sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL },
  );
  const reached = await withDatabase(url, async (sql) => {
    // Neither states what was revoked from the roles that default privileges
    // name. So in the rebuilt database these roles have all that those grant.
    await sql`grant all on all tables in schema public to anon, authenticated`;
    await sql`grant all on all functions in schema public to anon, authenticated`;
    return await sql.unsafe(REACHED);
  });
  assert(reached.length > 20, `${reached.length} windows and functions`);
  await using rest = await startPostgrest(url);
  for (const token of [anon, user]) {
    const headers = { ...bearer(token), "content-type": "application/json" };
    for (const { path, body } of reached) {
      const { code } = await ask(rest.url + path, headers, body ?? undefined);
      assertEquals(code, DENIED, path);
    }
  }
  const headers = bearer(serviceRole);
  const health = await ask(`${rest.url}/billing_health`, headers);
  const apply = await ask(`${rest.url}/rpc/billing_apply_events`, {
    ...headers,
    "content-type": "application/json",
  }, { events: [] });
  assertEquals([health.status, apply.status], [200, 200]);
});

Deno.test("PostgREST lets no page of another origin use the key that everybody knows", async () => {
  await using postgrest = await startPostgrest(setting("TEST_DATABASE_URL"));
  const url = `${postgrest.url}/billing_subscriptions`;
  // Fetch standard, "CORS protocol": what a browser asks, and looks for.
  const asked = {
    Origin: "https://page.example",
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
  };
  const preflight = await fetch(url, { method: "OPTIONS", headers: asked });
  await preflight.body?.cancel();
  assertEquals(preflight.headers.get("access-control-allow-headers"), null);
  const headers = { ...asked, ...bearer(serviceRole) };
  const answer = await fetch(url, { headers });
  await answer.body?.cancel();
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
});
