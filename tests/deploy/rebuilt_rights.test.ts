/**
 * In a project with the default privileges from before 30 October 2026, a database
 * that is rebuilt from a squashed migration or from a dump grants everything in
 * schema public to everybody. The receiver's windows and functions are no use to
 * them all the same, because they may not use schema billing.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type postgres from "postgres";
import { signToken } from "../../scripts/local_stack/keys.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import {
  createDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
  migrate,
} from "../support/databases.ts";
import { dumpSchema } from "./dump_schema.ts";
import { post } from "../support/send.ts";
import { startPostgrest } from "../support/stacks.ts";
import { setting } from "../support/test_environment.ts";

/** insufficient_privilege */
const NO_RIGHT = "42501";
/** What Postgres says of a view that nobody can write to, before all else. */
const NOT_UPDATABLE = "55000";

/**
 * Returns requests that read and write each table and view of schema public and
 * call each function, from the catalog: what a later migration adds is among
 * them. With each, how it is refused to callers without the right.
 */
async function requestsTo(sql: postgres.Sql) {
  const relations = await sql`
    select c.relname as name, a.attname as column,
      pg_relation_is_updatable(c.oid, true) as events
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum = 1
    where c.relnamespace = 'public'::regnamespace
      and c.relkind in ('r', 'p', 'v', 'm', 'f')`;
  const functions = await sql`
    select p.proname as name, p.proargnames[1:p.pronargs] as arguments
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.prokind in ('f', 'p')`;
  return [
    ...relations.flatMap(({ name, column, events }) => {
      // The bits of pg_relation_is_updatable: 1 << CmdType.
      const write = (bit: number) => events & bit ? NO_RIGHT : NOT_UPDATABLE;
      const path = `/${name}`;
      const body = JSON.stringify({ [column]: null });
      return [
        { method: "GET", path, refusedWith: NO_RIGHT },
        { method: "POST", path, body: "{}", refusedWith: write(1 << 3) },
        { method: "PATCH", path, body, refusedWith: write(1 << 2) },
        { method: "DELETE", path, refusedWith: write(1 << 4) },
      ];
    }),
    ...functions.map(({ name, arguments: names }) => {
      const given = (names ?? []).map((name: string) => [name, null]);
      return {
        method: "POST",
        path: `/rpc/${name}`,
        body: JSON.stringify(Object.fromEntries(given)),
        refusedWith: NO_RIGHT,
      };
    }),
  ];
}

Deno.test("rebuilt under the default privileges of older projects, nothing is open to anon and authenticated", async () => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const original = await createDatabase(port, { name: "to_be_dumped" });
  await migrate(original.url);
  const { url } = await createDatabase(port, {
    name: "rebuilt_rights",
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
  const dump = await withDatabase(original.url, dumpSchema);
  const requests = await withDatabase(url, async (sql) => {
    await sql.unsafe(dump.join("\n")).simple();
    // Whatever the dump says of these two.
    await sql`grant all on all tables in schema public to anon, authenticated`;
    await sql`grant all on all functions in schema public to anon, authenticated`;
    await sql`set search_path to default`;
    return await requestsTo(sql);
  });
  assert(requests.length > 40, `${requests.length} requests`);
  await using rest = await startPostgrest(url);
  for (const role of ["anon", "authenticated", "service_role"]) {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const headers = {
      authorization: `Bearer ${await signToken({ role, exp })}`,
      "content-type": "application/json",
    };
    const open: string[] = [];
    for (const { method, path, body = null, refusedWith } of requests) {
      // The same database serves the receiver.
      if (role === "service_role" && path !== "/billing_health") continue;
      const answer = await post(rest.url + path, { method, headers, body });
      const { code } = JSON.parse(answer.body || "{}");
      if (code !== refusedWith) open.push(`${method} ${path}`);
    }
    const expected = role === "service_role" ? ["GET /billing_health"] : [];
    assertEquals(open, expected, role);
  }
});
