/**
 * The migrations on an empty database, on one that has them already, and on one
 * that has some of them.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import postgres from "postgres";
import { generateTypes, TYPES_FILE } from "../../scripts/dev/generate_types.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { setting } from "../support/test_environment.ts";
import { migrate, migrationVersions } from "../support/migrate_part.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

/** A database beside the others, without any migration. */
async function emptyDatabase(name: string) {
  const { url } = await createDatabase(port, { name });
  const sql = postgres(url, { max: 1, onnotice() {} });
  return { url, sql, [Symbol.asyncDispose]: () => sql.end() };
}

Deno.test("on an empty database the migrations apply, and a second time change nothing", async () => {
  await using database = await emptyDatabase("migrated_twice");
  const { url, sql } = database;
  await migrate(url);
  assertEquals(await appliedVersions(sql), migrationVersions());
  const once = await writtenObjects(sql);
  assert(once.length > 50, `${once.length} objects`);
  await migrate(url);
  assertEquals(await appliedVersions(sql), migrationVersions());
  assertEquals(await writtenObjects(sql), once);

  const committed = await Deno.readTextFile(TYPES_FILE);
  assertEquals(
    await generateTypes(url),
    committed,
    "database.types.ts is not what the migrations make: deno task types",
  );
});

Deno.test("migrations that stopped half way go on there", async () => {
  await using database = await emptyDatabase("migrated_half_way");
  const { url, sql } = database;
  await sql`create table public.failed_events (id text)`;
  await assertRejects(() => migrate(url), Error, "already exists");
  assertEquals(await appliedVersions(sql), migrationVersions().slice(0, 2));
  await sql`drop table public.failed_events`;
  await migrate(url);
  assertEquals(await appliedVersions(sql), migrationVersions());
});

async function appliedVersions(sql: postgres.Sql): Promise<string[]> {
  const rows = await sql`
    select version from supabase_migrations.schema_migrations order by version`;
  return rows.map(({ version }) => version);
}

/**
 * Every object of schema public with the transaction that wrote it last, by
 * which even one that was replaced by itself is told.
 */
async function writtenObjects(sql: postgres.Sql): Promise<string[]> {
  const rows = await sql`
    select o.what || ' ' || o.name || ' ' || o.written as text
    from (
      select 'relation', c.relname::text, c.xmin::text from pg_class c
      where c.relnamespace = 'public'::regnamespace
      union all
      select 'function', p.oid::regprocedure::text, p.xmin::text from pg_proc p
      where p.pronamespace = 'public'::regnamespace
      union all
      select 'constraint', k.conname::text, k.xmin::text from pg_constraint k
      where k.connamespace = 'public'::regnamespace
      union all
      select 'comment', d.objoid || '.' || d.objsubid, d.xmin::text
      from pg_description d
      where d.objoid in (
        select oid from pg_class where relnamespace = 'public'::regnamespace
        union all
        select oid from pg_proc where pronamespace = 'public'::regnamespace
      )
      union all
      select 'migration', m.version, m.xmin::text
      from supabase_migrations.schema_migrations m
    ) as o(what, name, written)
    order by 1`;
  return rows.map(({ text }) => text);
}
