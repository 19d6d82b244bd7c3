/**
 * The migrations on an empty database, on one that has them already, and on one
 * that has something in their way.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import postgres from "postgres";
import { generateTypes, TYPES_FILE } from "../../scripts/dev/generate_types.ts";
import { createDatabase } from "../support/create_database.ts";
import { checkMigrations } from "../../scripts/local_stack/migrations.ts";
import { setting } from "../support/test_environment.ts";
import {
  migrate,
  migrateByCli,
  migrationVersions,
} from "../support/migrate_part.ts";

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
  await migrate(url, { by: migrateByCli });
  assertEquals(await appliedVersions(sql), migrationVersions());
  const once = await writtenObjects(sql);
  assert(once.length > 50, `${once.length} objects`);
  await migrate(url, { by: migrateByCli });
  assertEquals(await appliedVersions(sql), migrationVersions());
  assertEquals(await writtenObjects(sql), once);

  assertEquals(
    await generateTypes(url),
    await Deno.readTextFile(TYPES_FILE),
    "database.types.ts is not what the migrations make: deno task types",
  );
});

Deno.test("a table of another shape stops the first migration, and stays as it was", async () => {
  await using database = await emptyDatabase("collision");
  const { url, sql } = database;
  await sql`create table public.subscriptions (user_id int primary key)`;
  await sql`insert into public.subscriptions values (7)`;
  const before = await namesIn(sql);
  await assertRejects(
    () => migrate(url),
    Error,
    "Nothing was created: schema public has table subscriptions already.",
  );
  assertEquals(await namesIn(sql), before);
  assertEquals(await appliedVersions(sql), []);
  assertEquals([...await sql`table public.subscriptions`], [{ user_id: 7 }]);
});

Deno.test("only a database with all migrations, and no other, has nothing to be applied", async () => {
  await using database = await emptyDatabase("migrated_or_not");
  const { url, sql } = database;
  const kind = async () => (await checkMigrations(url))?.kind;
  assertEquals(await kind(), "waiting");
  await migrate(url, { before: migrationVersions().at(-1)! });
  assertEquals(await kind(), "waiting");
  await migrate(url);
  assertEquals(await kind(), undefined);
  await sql`insert into supabase_migrations.schema_migrations values ('7')`;
  assertEquals(await kind(), "changed");
});

Deno.test("the first migration names everything that stands in the way of any migration", async () => {
  await using migrated = await emptyDatabase("collisions_named");
  await migrate(migrated.url);
  const { relations, functions } = await namesIn(migrated.sql);
  assert(relations.length > 15 && functions.length > 25);

  await using database = await emptyDatabase("collisions");
  const { url, sql } = database;
  for (const name of relations) await sql`create sequence ${sql(name)}`;
  for (const name of functions) {
    await sql`
      create function ${
      sql(name)
    }(other text) returns int language sql return 1`;
  }
  const before = await namesIn(sql);
  const { message } = await assertRejects(() => migrate(url), Error);
  assertEquals(
    [
      ...relations.filter((name) => !message.includes(`sequence ${name}`)),
      ...functions.filter((name) => !message.includes(`function ${name}(`)),
    ],
    [],
    "add these to the lists at the head of the first migration",
  );
  assertEquals(await namesIn(sql), before);
});

/** The names that a new table, view or index, or a function, cannot have. */
async function namesIn(sql: postgres.Sql) {
  const relations = await sql`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace
      -- Postgres chooses another name for the index of a constraint.
      and not exists (select from pg_constraint k where k.conindid = c.oid)
    union
    select t.typname from pg_type t
    where t.typnamespace = 'public'::regnamespace
      and t.typrelid = 0 and t.typelem = 0
    order by 1`;
  const functions = await sql`
    select distinct proname as name from pg_proc
    where pronamespace = 'public'::regnamespace order by 1`;
  return {
    relations: relations.map(({ name }) => String(name)),
    functions: functions.map(({ name }) => String(name)),
  };
}

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
