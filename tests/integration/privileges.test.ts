/**
 * Every table, view and function of schema `public`, read from the catalog and
 * requested through PostgREST without a secret key: each request is refused,
 * and nothing changes. Schema `billing` is not served at all.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import postgres from "postgres";
import { localKeys, signToken } from "../../scripts/common/keys.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { apiFaults, type Callers } from "../support/api_faults.ts";
import {
  type ApiRequest,
  functionRequests,
  relationRequests,
} from "../support/api_requests.ts";
import { startPostgrest } from "../support/start_postgrest.ts";
import { setting } from "../support/test_environment.ts";

const keys = await localKeys();
const user = await signToken({
  role: "authenticated",
  sub: crypto.randomUUID(),
  exp: Math.floor(Date.now() / 1000) + 600,
});

const AT_THE_GATEWAY: Callers = {
  "the publishable key": { apikey: keys.publishable },
  "the legacy anon key": {
    apikey: keys.anon,
    authorization: `Bearer ${keys.anon}`,
  },
  "a signed-in user": {
    apikey: keys.publishable,
    authorization: `Bearer ${user}`,
  },
};
const AT_POSTGREST: Callers = {
  "no key": {},
  "the publishable key": { apikey: keys.publishable },
  "the legacy anon key": { authorization: `Bearer ${keys.anon}` },
  "a signed-in user": { authorization: `Bearer ${user}` },
};

const sql = connectTo(setting("TEST_DATABASE_URL"));
// All that is new was granted to everybody there: as in older projects.
const legacy = connectTo(setting("TEST_LEGACY_DATABASE_URL"));
const postgrest = await startPostgrest(setting("TEST_LEGACY_DATABASE_URL"));
Deno.test.afterAll(async () => {
  await postgrest[Symbol.asyncDispose]();
  await Promise.all([sql.end(), legacy.end()]);
});

function connectTo(url: string): postgres.Sql {
  return postgres(url, { max: 1, onnotice() {} });
}

async function allRequests(database: postgres.Sql): Promise<ApiRequest[]> {
  return [
    ...await relationRequests(database),
    ...await functionRequests(database),
  ];
}

/** What all tables hold, to show that nothing changed. */
async function contents(database: postgres.Sql): Promise<unknown[]> {
  const tables = await database<{ name: string }[]>`
    select relnamespace::regnamespace || '.' || relname as name from pg_class
    where relnamespace in ('public'::regnamespace, 'billing'::regnamespace)
      and relkind in ('r', 'p')`;
  assert(tables.length >= 7);
  return await Promise.all(tables.map(async ({ name }) => [
    name,
    ...await database`
      select count(*)::int, md5(string_agg(t::text, ' ' order by t::text))
      from ${database(name)} t`,
  ]));
}

async function assertShutOut(
  database: postgres.Sql,
  { url, callers }: { url: string; callers: Callers },
): Promise<void> {
  const requests = await allRequests(database);
  const before = await contents(database);
  assertEquals(await apiFaults(url, { requests, callers }), []);
  assertEquals(await contents(database), before);
  console.log(
    `${requests.length} requests, each with ${Object.keys(callers).join(", ")}`,
  );
}

Deno.test("the sweep knows the tables, views and functions of the design", async () => {
  const paths = (await allRequests(sql)).map(({ path }) => path);
  for (
    const path of [
      "/billing_subscriptions",
      "/billing_records",
      "/billing_processed_events",
      "/billing_failed_events",
      "/billing_notifications",
      "/billing_health",
      "/rpc/billing_apply_events",
      "/rpc/billing_record_failed_event",
      "/rpc/billing_has_access",
    ]
  ) {
    assert(paths.includes(path), path);
  }
});

Deno.test("the gateway and PostgREST refuse every table, view and function", async () => {
  await assertShutOut(sql, {
    url: `${setting("TEST_API_URL")}/rest/v1`,
    callers: AT_THE_GATEWAY,
  });
});

Deno.test("PostgREST refuses them without a gateway, on a database with the privileges of older projects", async () => {
  await assertShutOut(legacy, { url: postgrest.url, callers: AT_POSTGREST });
});

Deno.test("the gateway lets nothing through without a key", async () => {
  for (const { method, path, body = null } of await allRequests(sql)) {
    const response = await fetch(`${setting("TEST_API_URL")}/rest/v1${path}`, {
      method,
      body,
    });
    await response.body?.cancel();
    assertEquals([method, path, response.status], [method, path, 401]);
  }
});

Deno.test("schema billing is not served, not even with the secret key", async () => {
  const headers = { apikey: keys.secret, "accept-profile": "billing" };
  const url = `${setting("TEST_API_URL")}/rest/v1/subscriptions`;
  const answer = await fetch(url, { headers });
  assertEquals([answer.status, (await answer.json()).code], [406, "PGRST106"]);
});

Deno.test("PostgREST lets no page of another origin use the key that everybody knows", async () => {
  const origin = "https://page.example";
  // Fetch standard, "CORS protocol": what a browser asks, and looks for.
  const preflight = await fetch(`${postgrest.url}/billing_subscriptions`, {
    method: "OPTIONS",
    headers: {
      Origin: origin,
      "Access-Control-Request-Method": "GET",
      "Access-Control-Request-Headers": "authorization",
    },
  });
  await preflight.body?.cancel();
  assertEquals(preflight.headers.get("access-control-allow-headers"), null);
  const answer = await fetch(`${postgrest.url}/billing_subscriptions`, {
    headers: { Origin: origin, Authorization: `Bearer ${keys.serviceRole}` },
  });
  await answer.body?.cancel();
  assertEquals(answer.status, 200);
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
});

Deno.test("the API describes no table and no function to callers without a secret key", async () => {
  for (const headers of Object.values(AT_POSTGREST)) {
    const response = await fetch(`${postgrest.url}/`, { headers });
    assertEquals(Object.keys((await response.json()).paths), ["/"]);
  }
});

Deno.test("the sweep finds a table, a view and a function that were left open", async () => {
  const isKnown = async (expected: boolean) => {
    await legacy`notify pgrst, 'reload schema'`;
    return await waitUntil(async () => {
      const answer = await fetch(`${postgrest.url}/rpc/left_open`);
      await answer.body?.cancel();
      return answer.ok === expected;
    }, { timeoutMs: HANG_LIMIT_MS });
  };
  try {
    // Nothing grants anything here: these are the defaults of older projects.
    await legacy.unsafe(`
      create table public.left_open_table (id integer);
      create view public.left_open_view as select count(*) from public.left_open_table;
      create function public.left_open() returns integer language sql return 1;
    `);
    assert(await isKnown(true));
    const requests = await allRequests(legacy);
    const faults = await apiFaults(postgrest.url, {
      requests,
      callers: AT_POSTGREST,
    });
    const found = faults.map((fault) => fault.replace(/: .*/, ""));
    for (const caller of Object.keys(AT_POSTGREST)) {
      for (
        const request of [
          "GET /left_open_table",
          "POST /left_open_table",
          "PATCH /left_open_table",
          "DELETE /left_open_table",
          "GET /left_open_view",
          "GET /rpc/left_open?",
          "POST /rpc/left_open",
        ]
      ) {
        assert(found.includes(`${request} with ${caller}`), faults.join("\n"));
      }
    }
    assertEquals(faults.filter((fault) => !fault.includes("left_open")), []);
  } finally {
    await legacy.unsafe(`
      drop function if exists public.left_open();
      drop view if exists public.left_open_view;
      drop table if exists public.left_open_table;
    `);
    await isKnown(false);
  }
});
