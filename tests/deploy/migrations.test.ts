/**
 * The migration: that it and the types are made from the schema files, what it
 * does to a database with something in its way, and what a rebuilt one opens.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type postgres from "postgres";
import { generateTypes, TYPES } from "../../scripts/dev/types.ts";
import { MIGRATION, migrationText } from "../../scripts/dev/migration.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import {
  createDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
} from "../support/create_database.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import { migrate } from "../support/migrate_part.ts";
import { setting } from "../support/test_environment.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

/** Makes a database beside the others; returns its URL. */
async function database(name: string, sqlBefore?: string): Promise<string> {
  return (await createDatabase(port, { name, sqlBefore })).url;
}

Deno.test("the migration and the types are what the schema files make: deno task migration", async () => {
  assertEquals(await Deno.readTextFile(MIGRATION), await migrationText());
  const url = await database("types");
  await migrate(url);
  const types = await Deno.readTextFile(TYPES);
  assertEquals(await generateTypes(url), types);
});

Deno.test("every name that is taken in schema public is named at once, and nothing is created", async () => {
  const migrated = await database("collisions_named");
  await migrate(migrated);
  const names = await withDatabase(migrated, (sql) =>
    sql`
      select 'sequence' as kind, relname as name from pg_class
      where relnamespace = 'public'::regnamespace
      union all
      select distinct 'function', proname from pg_proc
      where pronamespace = 'public'::regnamespace`);
  assert(names.length > 15);
  const url = await database(
    "collisions",
    names.map(({ kind, name }) =>
      kind === "sequence"
        ? `create sequence ${name};`
        : `create function ${name}(other text) returns int language sql return 1;`
    ).join("\n"),
  );
  await assertRefused(
    url,
    names.map(({ kind, name }) =>
      `${kind} ${name}${kind === "function" ? "(text)" : ""}`
    ),
  );
});

Deno.test("a type of schema public, and everything in schema billing, is named as well", async () => {
  const url = await database(
    "collision_of_schema",
    `create type billing_records as enum ('a');
    create schema billing;
    create table billing.subscriptions (id int);
    create type billing.plan as enum ('a');
    create function billing.mine() returns int language sql return 1;`,
  );
  await assertRefused(url, [
    "function billing.mine()",
    "table billing.subscriptions",
    "type billing.plan",
    "type billing_records",
  ]);
});

Deno.test("an empty schema billing is taken over from the same owner, and from no other", async () => {
  await migrate(await database("of_the_same", "create schema billing"));
  const { url, adminUrl } = await createDatabase(port, { name: "of_another" });
  await withDatabase(adminUrl, (sql) => sql`create schema billing`);
  await assertRefused(url, ["schema billing of supabase_admin"]);
});

/** What reaches into schema public, made from the catalog. */
const REACHING = `
  select format('%s public.%I', verb, relname) as text
  from pg_class, unnest(array['select from', 'delete from']) as verb
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')
  union all
  select format('select public.%I(%s)', proname, (
    select string_agg(
      case when type in ('jsonb'::regtype) then $$'[]'$$ else 'null' end
        || '::' || format_type(type, null), ', ' order by place)
    from unnest(proargtypes) with ordinality as a (type, place)
  ))
  from pg_proc
  where pronamespace = 'public'::regnamespace
    and prorettype <> 'trigger'::regtype`;

Deno.test("rebuilt from a dump under the default privileges of older projects, the windows and functions are no use to anybody", async () => {
  const original = await database("to_be_dumped");
  await migrate(original);
  const dump = await withDatabase(original, dumpSchema);
  const url = await database("rebuilt", LEGACY_DEFAULT_PRIVILEGES_SQL);
  await withDatabase(url, async (sql) => {
    await sql.unsafe(dump.join("\n")).simple();
    await sql.unsafe(`
      grant all on all tables in schema public to anon, authenticated;
      grant all on all functions in schema public to anon, authenticated;
      set search_path to default`).simple();
    const statements = await sql.unsafe(REACHING);
    assert(statements.length > 25, `${statements.length} statements`);
    for (const role of ["anon", "authenticated"]) {
      await sql.unsafe(`set role ${role}`);
      for (const { text } of statements) {
        const code = await sql.unsafe(text).then(
          () => "",
          (error) => error.code,
        );
        // 55000: nobody can write to that view.
        assert(["42501", "55000"].includes(code), `${role}, ${text}: ${code}`);
      }
      await sql`reset role`;
    }
  });
});

/** Migrates, and asserts that these names alone stop it before it does anything. */
async function assertRefused(url: string, taken: string[]): Promise<void> {
  const before = await withDatabase(url, objects);
  const { message } = await assertRejects(() => migrate(url), Error);
  const [, named = ""] =
    /^Nothing was created, because these names are taken: (.+)\. Rename or drop them/
      .exec(message) ?? [];
  assertEquals(named.split(", ").sort(), taken.sort(), message);
  assertEquals([...await withDatabase(url, objects)], [...before]);
}

function objects(sql: postgres.Sql) {
  return sql`
    select oid::regclass::text from pg_class
    where relnamespace::regnamespace::text in ('public', 'billing')
    union all
    select oid::regprocedure::text from pg_proc
    where pronamespace::regnamespace::text in ('public', 'billing') order by 1`;
}
