/**
 * In a project with the default privileges from before 30 October 2026, a database
 * that is rebuilt from a squashed migration or from a dump grants everything in
 * schema public to everybody. The receiver's functions and views are no use to
 * them all the same.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import {
  createDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
} from "../support/create_database.ts";
import { migrate } from "../support/migrate_part.ts";
import { setting } from "../support/test_environment.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

Deno.test("rebuilt under the default privileges of older projects, nothing is open to anon and authenticated", async () => {
  const { url } = await createDatabase(port, {
    name: "rebuilt_rights",
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
  await migrate(url);
  await withDatabase(url, async (sql) => {
    // A dump says nothing of what was revoked from these two.
    await sql`grant all on all tables in schema public to anon, authenticated`;
    await sql`grant all on all functions in schema public to anon, authenticated`;
    const calls = await sql`
      select format('select from public.%I', c.relname) as call from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relname ~ '^billing_'
      union all
      select format('select public.%I(%s)', p.proname, (
        select string_agg(format('%L::%s', case t.type
          when 'jsonb'::regtype then '[]' when 'uuid'::regtype then gen_random_uuid()::text
          when 'integer'::regtype then '1' end, t.type), ', ' order by t.at)
        from unnest(p.proargtypes::regtype[]) with ordinality t (type, at)
      )) from pg_proc p
      where p.pronamespace = 'public'::regnamespace and p.proname ~ '^billing_'`;
    assert(calls.length > 20, `${calls.length} calls`);
    for (const role of ["anon", "authenticated"]) {
      const open: string[] = [];
      for (const { call } of calls) {
        await sql.begin(async (transaction) => {
          await transaction.unsafe(`set local role ${role}`);
          await transaction.unsafe(call);
          open.push(call);
        }).catch((error) => {
          if (error.code !== "42501") open.push(`${call}: ${error.message}`);
        });
      }
      assertEquals(open, [], role);
    }
  });
});
