/**
 * The receiver in a project of somebody else's: added, updated, deployed beside
 * what is there by docs/deploy.md, and taken out by docs/leave.md.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import {
  databaseUrls,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { createDatabase } from "../support/create_database.ts";
import { readBlocks } from "../support/doc_commands.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import { migrateByCli } from "../support/migrate_part.ts";
import { commitAll, makeProject, receiver } from "../support/project_folder.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import type { Typed } from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";
import {
  assertWorks,
  createHostedProject,
  openDeployer,
  setLocalPort,
  SIGNING_SECRET,
} from "./hosted_project.ts";
import { leaveProject, type ProjectState, stateOf } from "./leave_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";

const env = { SUPABASE_YES: "1" };
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
const { block } = readBlocks("docs/deploy.md");

/** What an app has: a function with a helper in `_shared`, and migrations. */
const APP = {
  "functions/hello/deno.json": '{ "imports": {} }\n',
  "functions/hello/index.ts":
    'export { hello as default } from "../_shared/database.ts";\n',
  "functions/_shared/database.ts":
    "export const hello = { fetch: () => new Response() };\n",
  "migrations/20240101000000_notes.sql":
    "create table public.notes (id int primary key, text text);\n",
  "migrations/20260101000000_profiles.sql": "",
  // Ahead of the receiver's.
  "migrations/20990101000000_tags.sql":
    "create table public.tags (id int primary key);\n",
};

Deno.test("a project gets the receiver, updates it, has it beside its own functions, and leaves it", async (test) => {
  await using opened = new AsyncDisposableStack();
  const hosted = opened.use(await createHostedProject({ port, name: "app" }));
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-app-" });
  opened.defer(() => Deno.remove(path, { recursive: true }));
  const app = opened.use(await openDeployer(hosted, path));
  const init = "git init -q; supabase init --yes; supabase functions new hello";
  assertWorks(await app.type(init));
  for (const [name, text] of Object.entries(APP)) {
    const file = join(path, "supabase", name);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, text);
  }
  const copy = opened.use(await copyRepository());
  const clone = opened.use(await openDeployer(hosted, copy.path));
  for (const folder of [path, copy.path]) await setLocalPort(folder, port);
  const { api } = hosted;
  const sql = postgres(hosted.databaseUrl, { max: 1, onnotice() {} });
  await using _sql = { [Symbol.asyncDispose]: () => sql.end() };
  const project = { app, hosted, sql };
  const push = block("supabase db push --remote");
  const { secret } = await localKeys();

  /** Runs add in the clone, for the app that the user is in. */
  async function add(options: string): Promise<Typed> {
    await commitAll(app.path);
    return await app.type(
      `cd '${clone.path}' && INIT_CWD='${app.path}' deno task add . ${options}`,
    );
  }
  async function appliedNames(): Promise<string[]> {
    const rows = await sql`
      select name from supabase_migrations.schema_migrations order by version`;
    return rows.map(({ name }) => String(name));
  }
  const hello = () => structuredClone(api.uploads.get("hello"));
  const theirs = ["notes", "profiles", "tags"];
  /** A second release, which this repository does not have yet. */
  const second =
    `${clone.path}/supabase/migrations/20261126000000_billing_note.sql`;
  const ownMigration = "supabase/migrations/20990201000000_first_tag.sql";
  const ownText = "insert into public.tags values (1);\n";

  let deployed: unknown;
  let before: ProjectState;
  await test.step("the project before: its own migrations, function and settings", async () => {
    await using _extensions = await installSupabaseExtensions(
      setting("TEST_PG_SHARE_DIR"),
    );
    await sql.unsafe(`
      create extension pg_cron schema pg_catalog;
      create extension pg_net schema extensions;
      create extension supabase_vault;
      select cron.schedule('of the app', '* * * * *', 'select 1');
      select vault.create_secret('secret', 'of the app');`);
    const link = block("cd ../my-app").replace("../my-app", `'${app.path}'`);
    assertWorks(await app.type(link, { input: ACCESS_TOKEN }));
    const start =
      "supabase db push --remote\nsupabase functions deploy hello --use-api";
    assertWorks(await app.type(start, { env }));
    api.secrets.set("OF_THE_APP", "1");
    await sql`
      create policy notes on public.notes for select to authenticated using (true)`;
    assertEquals(await appliedNames(), theirs);
    deployed = hello();
    before = await stateOf(project);
  });

  await test.step("added: a push, which a name that is taken in the database stops", async () => {
    assertWorks(await add("--yes"));
    await sql`create table public.billing_subscriptions (user_id int)`;
    const { code, said } = await app.type(push, { env });
    const taken = "these names are taken: table billing_subscriptions";
    assertStringIncludes(said, `Nothing was created, because ${taken}`);
    assertEquals([code, await appliedNames()], [1, theirs]);
    await sql`drop table public.billing_subscriptions`;
    assertWorks(await app.type(push, { env }));
    assertEquals(await appliedNames(), [...theirs, "billing"]);
    // `--remote` keeps the local database out.
    await withDatabase(databaseUrls(port).url, async (sql) => {
      const [row] = await sql`select to_regclass('public.tags') as found`;
      assertEquals(row?.found, null);
    });
  });

  await test.step("deploy.md, 1. and 2. Updated, after the project made a migration of its own", async () => {
    await Deno.writeTextFile(second, "comment on schema billing is 'Second'");
    await Deno.writeTextFile(`${app.path}/${ownMigration}`, ownText);
    assertEquals((await add("--check")).code, 1);
    // It asks, and the page's folder is beside the clone.
    const update = block("deno task add ../my-app")
      .replace("../my-app", `'${app.path}' --yes`);
    assertWorks(await clone.type(update));
    assertWorks(await add("--check"));
    assertWorks(await app.type(push, { env }));
    const all = [...theirs, "billing", "first_tag", "billing_note"];
    assertEquals(await appliedNames(), all);
    await Deno.remove(second);
  });

  await test.step("deploy.md, 3. The functions, and that of before is deployed byte for byte. 5. Secrets, 6. The schedule", async () => {
    assertWorks(
      await app.type("supabase functions deploy hello --use-api", { env }),
    );
    assertEquals(hello(), deployed);
    const deploy = block("supabase functions deploy billing-webhook");
    assertWorks(await app.type(deploy, { env }));
    const uploads = [...api.uploads];
    assertEquals(
      uploads.map(([name, { metadata }]) => [name, metadata.verify_jwt]),
      [["hello", false], ["billing-webhook", false], ["billing-worker", false]],
    );
    const secrets = block("supabase secrets set PROVIDER_A_SIGNATURE_HEADER");
    assertWorks(await app.type(secrets, { env }));
    assertEquals(Object.fromEntries(api.secrets), {
      OF_THE_APP: "1",
      PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
      PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET,
    });
    await sql.unsafe(
      block("select billing.schedule_worker")
        .replace("https://<project-ref>.supabase.co", hosted.url)
        .replace("sb_secret_...", secret),
    );
  });

  await leaveProject(test, project, {
    before: {
      ...before!,
      tree: { ...before!.tree, [ownMigration]: ownText },
    },
    add: () => add("--yes"),
  });
  assertEquals(api.faults, []);
});

Deno.test("an app with subscriptions and declarative schemas of its own, and short numbers, gets the receiver beside them", async () => {
  const tables = "create table subscriptions (id int);";
  await using project = await makeProject({
    "config.toml": "",
    "migrations/0007_init.sql": tables,
    "schemas/tables.sql": tables,
  });
  const { url } = await createDatabase(port, { name: "declarative" });
  await migrateByCli(project.path, url);
  const { todo, blockers } = await project.add();
  assertEquals([todo, blockers], [[], []]);
  await migrateByCli(project.path, url);
  const made = await withDatabase(url, async (sql) => {
    const rows = await sql`
      select version, name from supabase_migrations.schema_migrations
      order by version`;
    assertEquals(rows.map(({ version, name }) => [version, name]), [
      ["0007", "init"],
      ["0008", "billing"],
    ]);
    return await dumpSchema(sql);
  });

  // "supabase db schema declarative sync" builds a database from the whole folder,
  // which needs Docker, and makes a migration of the difference: there is none.
  const tree = await project.tree();
  const schemas = Object.keys(tree).filter((it) => it.startsWith("schemas/"))
    .sort();
  assertEquals(schemas.length, 1 + receiver.schemas.size);
  const declared = await createDatabase(port, { name: "declared" });
  await withDatabase(declared.url, async (sql) => {
    await sql.unsafe("set check_function_bodies = off").simple();
    for (const path of ["schemas/tables.sql", ...schemas.slice(0, -1)]) {
      await sql.unsafe(tree[path]!).simple();
    }
  });
  assertEquals(await withDatabase(declared.url, dumpSchema), made);
});
