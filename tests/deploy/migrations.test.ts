/** The migration: how it is made, and a database with something in its way. */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  FIRST,
  generateTypes,
  MIGRATION,
  migrationText,
  TYPES,
} from "../../scripts/dev/migration.ts";
import { createCommand } from "../../scripts/common/processes.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import {
  updateDatabase,
  updateProjectDatabase,
} from "../../scripts/local_stack/migrations.ts";
import { RIGHTS } from "../support/app_page.ts";
import { copyRepository } from "../support/copy_repository.ts";
import {
  createDatabase,
  createMigratedDatabase,
  migrate,
  pretendVersion,
} from "../support/databases.ts";
import { schemaOf } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const migrated = setting("TEST_DATABASE_URL");
const port = Number(new URL(migrated).port);

Deno.test("the schema files make the migration and the types", async () => {
  assertEquals(await Deno.readTextFile(MIGRATION), await migrationText());
  const { url } = await createDatabase(port, { name: "types" });
  await migrate(url);
  const types = await Deno.readTextFile(TYPES);
  assertEquals(await generateTypes(url), types);
});

Deno.test("a later migration leaves an app its rights, and gives nobody else any", async () => {
  const { url } = await createMigratedDatabase(port, { name: "later" });
  const run = (text: string) =>
    withDatabase(url, (sql) => sql.unsafe(text).simple());
  await run(RIGHTS);
  const before = await withDatabase(url, schemaOf);

  // As if the window's column and the function were new.
  await using copy = await copyRepository();
  const later = `${copy.path}/supabase/migrations/20990101000000_billing_x.sql`;
  await Deno.writeTextFile(
    later,
    `revoke select (livemode) on billing.subscriptions from authenticated;
    drop function public.billing_is_erased;\n`,
  );
  const args = ["run", "-A", "--frozen", "scripts/dev/migration.ts"];
  const { success } = await createCommand(Deno.execPath(), {
    args,
    cwd: copy.path,
    stdout: "null",
  }).spawn().status;
  assert(success);

  await run(await Deno.readTextFile(later));
  assertEquals(await withDatabase(url, schemaOf), before);
});

Deno.test("all taken names are listed at once, and nothing is created", async () => {
  const ours = await withDatabase(migrated, (sql) =>
    sql`
      select 'sequence ' || relname as taken, 'sequence ' || relname as made
      from pg_class
      where relnamespace = 'public'::regnamespace and relname ~ '^billing_'
      union
      select format('function %s(text)', proname),
        format('function %s(other text) returns int return 1', proname)
      from pg_proc
      where pronamespace = 'public'::regnamespace and proname ~ '^billing_'`);
  assert(ours.length > 15);

  const others = [
    "type billing_records",
    "table billing.subscriptions",
    "type billing.plan",
    "function billing.mine()",
  ];
  const { url } = await createDatabase(port, {
    name: "collisions",
    sqlBefore: `
      ${ours.map((row) => `create ${row["made"]};`).join("\n")}
      create type billing_records as enum ('a');
      create schema billing;
      create table billing.subscriptions (id int);
      create type billing.plan as enum ('a');
      create function billing.mine() returns int return 1;`,
  });
  await assertRefused(url, [...ours.map((row) => row["taken"]), ...others]);
});

Deno.test("an empty schema billing is taken over from the same owner only", async () => {
  const sqlBefore = "create schema billing";
  const same = await createDatabase(port, { name: "of_the_same", sqlBefore });
  await migrate(same.url);

  // A stack whose data has another text of the migration does not start.
  await withDatabase(
    same.url,
    (sql) =>
      sql`update supabase_migrations.schema_migrations set statements = '{x}'`,
  );
  const update = () => updateDatabase(same.url, { cliHome: "/nowhere" });
  await assertRejects(
    update,
    Error,
    "made by another version of migration",
  );

  const { url, adminUrl } = await createDatabase(port, { name: "of_another" });
  await withDatabase(adminUrl, (sql) => sql.unsafe(sqlBefore));
  await assertRefused(url, ["schema billing of supabase_admin"]);
});

Deno.test("Postgres before 15 is refused before anything is created", async () => {
  const [first = ""] = (await Deno.readTextFile(FIRST))
    .replace(/^--.*\n/, "")
    .split(/(?<=;)\n\n?-- supabase\/schemas/);
  assertStringIncludes(first, "do $$");
  for (
    const [major, refusal] of [
      [
        14,
        "Nothing was created, because this is Postgres 14.9, and the receiver needs 15 or later. Upgrade Postgres (dashboard, Project Settings, Infrastructure), and push again.",
      ],
      [15, undefined],
    ] as const
  ) {
    const name = `postgres_${major}`;
    const sqlBefore = pretendVersion(name, major);
    const { url } = await createDatabase(port, { name, sqlBefore });
    const before = await withDatabase(url, schemaOf);
    // A transaction would undo what the statement creates.
    const error = await withDatabase(url, (sql) => sql.unsafe(first))
      .then(() => undefined, ({ message }) => message);
    assertEquals(error, refusal);
    assertEquals(await withDatabase(url, schemaOf), before);
  }
});

Deno.test("a project's migration that fails is left out until it does not", async () => {
  const project = await Deno.makeTempDir({ prefix: "billing-webhook-own-" });
  const folder = `${project}/supabase/migrations`;
  await Deno.mkdir(folder, { recursive: true });
  const write = (file: string, sql: string) =>
    Deno.writeTextFile(`${folder}/${file}`, sql);
  const { url } = await createDatabase(port, { name: "project" });
  const update = () => updateProjectDatabase(url, { project });
  const refused = (message: string) => assertRejects(update, Error, message);

  const files = { "migrations/31_billing.sql": "" };
  await write("../billing.json", JSON.stringify({ files }));
  await write("10_users.sql", "create table u (id uuid references auth.users)");
  // If its first half stayed, it would fail for ever.
  await write("20_half.sql", "create table half (); table missing");
  const ours = `${folder}/30_billing.sql`;
  await Deno.copyFile(FIRST, ours);
  const wrong = [40, 50].map((version) => `${version}_wrong.sql`);
  for (const file of wrong) await write(file, "selec");
  assertEquals(await update(), [
    "These failed and are left out. Each start tries them again:",
    "  20_half.sql",
    '    relation "missing" does not exist',
    ...wrong
      .flatMap((it) => [`  ${it}`, '    syntax error at or near "selec"']),
  ]);

  await write(
    "15_between.sql",
    "\ufeffcreate table missing (); set search_path = ''",
  );
  for (const file of ["10_users.sql", ...wrong]) {
    await Deno.remove(`${folder}/${file}`);
  }
  await write("15_twice.sql", "select 1");
  for (const _ of [1, 2]) {
    assertEquals(await update(), [
      "These failed and are left out. Each start tries them again:",
      "  15_twice.sql",
      '    duplicate key value violates unique constraint "schema_migrations_pkey"',
      "10 is still applied, without a file",
    ]);
  }

  await Deno.rename(ours, `${folder}/31_billing.sql`);
  await refused("migration failed:\n  31_billing.sql\n    Nothing was created");
  await write("15_between.sql", "create table other ()");
  await refused("another version of migration 15_between.sql");
  await Deno.remove(project, { recursive: true });
});

async function assertRefused(url: string, taken: string[]): Promise<void> {
  const before = await withDatabase(url, schemaOf);
  const { message } = await assertRejects(() => migrate(url), Error);
  const [, named = ""] =
    /^Nothing was created, because these names are taken: (.+)\. Rename or drop them/
      .exec(message) ?? [];
  assertEquals(named.split(", ").sort(), taken.sort(), message);
  assertEquals(await withDatabase(url, schemaOf), before);
}
