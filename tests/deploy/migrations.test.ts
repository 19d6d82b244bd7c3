/**
 * The migration: that it is made from the schema files, and what it does to an
 * empty database, to one that has it already, and to one with something in its
 * way.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import postgres from "postgres";
import { generateTypes, TYPES } from "../../scripts/dev/types.ts";
import { MIGRATION, migrationText } from "../../scripts/dev/migration.ts";
import { checkMigrations } from "../../scripts/local_stack/migrations.ts";
import { createDatabase } from "../support/create_database.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import {
  migrate,
  migrateByCli,
  migrationVersions,
} from "../support/migrate_part.ts";
import { receiver } from "../support/project_folder.ts";
import { setting } from "../support/test_environment.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

/** A database beside the others, without the migration. */
async function emptyDatabase(name: string) {
  const { url, adminUrl } = await createDatabase(port, { name });
  const sql = postgres(url, { max: 1, onnotice() {} });
  return { url, adminUrl, sql, [Symbol.asyncDispose]: () => sql.end() };
}

Deno.test("the migration is what the schema files make: deno task migration", async () => {
  assertEquals(await Deno.readTextFile(MIGRATION), await migrationText());
});

Deno.test("there is one migration", () => {
  assertEquals(migrationVersions(), ["20261125000000"]);
});

Deno.test("the migration and the schema files, in order, make the same database", async () => {
  await using migrated = await emptyDatabase("by_migration");
  await migrate(migrated.url);
  await using declared = await emptyDatabase("by_schemas");
  for (const [, text] of [...receiver.schemas].sort()) {
    await declared.sql.unsafe(text).simple();
  }
  const statements = await dumpSchema(migrated.sql);
  assert(statements.length > 150, `${statements.length} statements`);
  assertEquals(await dumpSchema(declared.sql), statements);
});

Deno.test("the types of the database are those that the migration makes: deno task migration", async () => {
  await using database = await emptyDatabase("types");
  await migrate(database.url);
  assertEquals(
    await generateTypes(database.url),
    await Deno.readTextFile(TYPES),
  );
});

Deno.test("the Supabase CLI applies the migration, and a second time changes nothing", async () => {
  await using database = await emptyDatabase("migrated_twice");
  const { url, sql } = database;
  await migrate(url, { by: migrateByCli });
  assertEquals(await appliedVersions(sql), migrationVersions());
  const once = await writtenObjects(sql);
  assert(once.length > 100, `${once.length} objects`);
  await migrate(url, { by: migrateByCli });
  assertEquals(await appliedVersions(sql), migrationVersions());
  assertEquals(await writtenObjects(sql), once);
});

Deno.test("only a database with the migration has nothing to be applied, and one with another is refused", async () => {
  await using database = await emptyDatabase("migrated_or_not");
  const { url, sql } = database;
  const kind = async () => (await checkMigrations(url))?.kind;
  assertEquals(await kind(), "waiting");
  await migrate(url);
  assertEquals(await kind(), undefined);
  await sql`insert into supabase_migrations.schema_migrations values ('7')`;
  assertEquals(await kind(), "changed");
});

Deno.test("tables of an app with other names are not in the way", async () => {
  await using database = await emptyDatabase("beside_others");
  const { url, sql } = database;
  await sql`create table public.subscriptions (user_id int primary key)`;
  await sql`insert into public.subscriptions values (7)`;
  await sql`create function public.has_access() returns int language sql return 1`;
  await migrate(url);
  assertEquals([...await sql`table public.subscriptions`], [{ user_id: 7 }]);
});

Deno.test("every name that is taken in schema public is named at once, and nothing is created", async () => {
  await using migrated = await emptyDatabase("collisions_named");
  await migrate(migrated.url);
  const { relations, functions } = await namesIn(migrated.sql);
  assert(relations.length > 5 && functions.length > 10);

  await using database = await emptyDatabase("collisions");
  const { sql } = database;
  for (const name of relations) await sql`create sequence ${sql(name)}`;
  for (const name of functions) {
    await sql`
      create function ${
      sql(name)
    }(other text) returns int language sql return 1`;
  }
  await assertRefused(database, [
    ...relations.map((name) => `sequence ${name}`),
    ...functions.map((name) => `function ${name}(text)`),
  ]);
});

Deno.test("a type of schema public may not have the name of a window either", async () => {
  await using database = await emptyDatabase("collision_of_type");
  await database.sql`create type billing_records as enum ('a')`;
  await assertRefused(database, ["type billing_records"]);
});

Deno.test("everything that an app has in schema billing is named at once, and nothing is created", async () => {
  await using database = await emptyDatabase("collision_of_schema");
  await database.sql.unsafe(`
    create schema billing;
    create table billing.subscriptions (id int);
    create type billing.plan as enum ('a');
    create function billing.mine() returns int language sql return 1;`);
  await assertRefused(database, [
    "function billing.mine()",
    "table billing.subscriptions",
    "type billing.plan",
  ]);
});

Deno.test("an empty schema billing of the same owner is taken over", async () => {
  await using database = await emptyDatabase("empty_schema");
  const { url, sql } = database;
  await sql`create schema billing`;
  await migrate(url);
  assertEquals([...await sql`table billing.subscriptions`], []);
});

Deno.test("an empty schema billing of another owner is refused", async () => {
  await using database = await emptyDatabase("schema_of_another");
  const admin = postgres(database.adminUrl, { max: 1, onnotice() {} });
  await admin`create schema billing`;
  await admin.end();
  await assertRefused(database, ["schema billing of supabase_admin"]);
});

/** Migrates, and asserts that these names alone stop it before it does anything. */
async function assertRefused(
  { url, sql }: { url: string; sql: postgres.Sql },
  taken: string[],
): Promise<void> {
  const before = await writtenObjects(sql);
  const { message } = await assertRejects(() => migrate(url), Error);
  const [, named = ""] =
    /^Nothing was created, because these names are taken: (.+)\. Rename or drop them/
      .exec(message) ?? [];
  assertEquals(named.split(", ").sort(), taken.sort(), message);
  assertEquals(await writtenObjects(sql), before);
  assertEquals(await appliedVersions(sql), []);
}

/** The names in schema public: of windows, and of functions. */
async function namesIn(sql: postgres.Sql) {
  const relations = await sql`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace order by 1`;
  const functions = await sql`
    select proname as name from pg_proc
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
 * Every object of both schemas with the transaction that wrote it last, which
 * shows even one that was replaced by itself.
 */
async function writtenObjects(sql: postgres.Sql): Promise<string[]> {
  const rows = await sql`
    select o.what || ' ' || o.name || ' ' || o.written as text
    from (
      select 'schema', nspname::text, xmin::text, oid from pg_namespace
      union all
      select 'relation', relname::text, xmin::text, relnamespace from pg_class
      union all
      select 'type', typname::text, xmin::text, typnamespace from pg_type
      union all
      select 'function', oid::regprocedure::text, xmin::text, pronamespace
      from pg_proc
      union all
      select 'constraint', conname::text, xmin::text, connamespace
      from pg_constraint
      union all
      select 'comment', d.objoid || '.' || d.objsubid, d.xmin::text, c.relnamespace
      from pg_description d join pg_class c on c.oid = d.objoid
      union all
      select 'comment', d.objoid::text, d.xmin::text, p.pronamespace
      from pg_description d join pg_proc p on p.oid = d.objoid
    ) as o (what, name, written, namespace)
    join pg_namespace n on n.oid = o.namespace
    where n.nspname in ('public', 'billing')
    order by 1`;
  return rows.map(({ text }) => text);
}
