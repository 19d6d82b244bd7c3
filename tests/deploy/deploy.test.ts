/**
 * docs/deploy.md: its commands, typed with an unused CLI, bring the receiver to a project
 * of its own and to one that has an app, and take it out again.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import postgres from "postgres";
import { REPOSITORY } from "../../scripts/common/how_started.ts";
import {
  databaseUrls,
  LOCAL_PASSWORD,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { readMigrations } from "../../scripts/local_stack/migrations.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { createDatabase, migrate } from "../support/databases.ts";
import { fencedBlocks, readPage } from "../support/docs.ts";
import { makeProject, newest } from "../support/project_folder.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import type { Typed } from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";
import {
  ACCESS_TOKEN,
  assertWorks,
  createHostedProject,
  LIVE_SECRET,
  openDeployer,
  SIGNING_SECRET,
} from "./hosted_project.ts";
import { schemaOf } from "./schema_of.ts";

const env = { SUPABASE_YES: "1" };
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
/** Shows the CLI the local database, which `--remote` has to keep out. */
const setLocalPort =
  `sed -i 's/^port = 54322/port = ${port}/' supabase/config.toml`;
const { secret } = await localKeys();

const PAGE = "docs/deploy.md";
/** The page's blocks of commands and of SQL that are not typed yet. */
const left = new Set(
  ["sh", "sql"].flatMap((language) =>
    fencedBlocks(readPage(PAGE), { page: PAGE, language })
      .map(({ text }) => text)
  ),
);
const blocks = [...left];
function block(start: string): string {
  const found = blocks.filter((text) => text.startsWith(start));
  assertEquals(found.length, 1, start);
  left.delete(found[0]!);
  return found[0]!;
}
const login = block("supabase login");
const push = block("supabase db push --remote");
const deployFunctions = block("supabase functions deploy billing-webhook");
const setSecrets = block(
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_...",
);
const runDoctor = block(
  "export SUPABASE_URL=https://<project-ref>.supabase.co\nread -rs SUPABASE_SECRET",
);

Deno.test("docs/deploy.md: a project of its own, in CI: by token and password, and nothing without a yes", async () => {
  await using opened = new AsyncDisposableStack();
  const project = opened.use(await createHostedProject({ port, name: "own" }));
  const { path } = opened.use(await copyRepository());
  const { type } = opened.use(await openDeployer(project, path));
  const { api, databaseUrl } = project;
  const ci = {
    SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
    SUPABASE_DB_PASSWORD: LOCAL_PASSWORD,
  };
  const link = login.replace("supabase login\n", "");
  const { code, output } = await type(`${setLocalPort}\n${link}\n${push}`, {
    env: ci,
  });
  assertStringIncludes(output, "Confirmation required");
  assertEquals(code, 1);

  assertWorks(await type(push, { env: { ...env, ...ci } }));
  await withDatabase(databaseUrl, async (sql) => {
    const rows = await sql`
      select version from supabase_migrations.schema_migrations order by 1`;
    const versions = readMigrations(REPOSITORY).map(({ version }) => version);
    assertEquals(rows.map((row) => row["version"]), versions);
  });
  const asked = api.requests.join("\n");
  assert(!asked.includes("login-role"), asked);

  for (
    const [end, secrets, mode] of [
      [",", `${LIVE_SECRET},${SIGNING_SECRET}`, undefined],
      [" ", LIVE_SECRET, "live"],
    ] as const
  ) {
    const set =
      `supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_<live>${end}`;
    assertWorks(await type(block(set), { env: { ...env, ...ci } }));
    assertEquals(api.secrets.get("PROVIDER_A_SIGNING_SECRET"), secrets);
    assertEquals(api.secrets.get("PROVIDER_A_MODE"), mode);
  }
  assertEquals(api.faults, []);
});

const FUNCTIONS = {
  "functions/hello/deno.json": '{ "imports": {} }\n',
  "functions/hello/index.ts":
    'export { hello as default } from "../_shared/database.ts";\n',
  "functions/_shared/database.ts":
    "export const hello = { fetch: () => new Response() };\n",
};
/** "supabase functions new" writes this. */
const HELLO = `
[functions.hello]
enabled = true
verify_jwt = true
import_map = "./functions/hello/deno.json"
entrypoint = "./functions/hello/index.ts"`;
const MIGRATIONS = {
  "migrations/20240101000000_notes.sql":
    "create table public.notes (id int primary key, text text);\n",
  "migrations/20260101000000_profiles.sql": "",
  // It is dated after the receiver's.
  "migrations/20990101000000_tags.sql":
    "create table public.tags (id int primary key);\n",
};
const THEIRS = ["notes", "profiles", "tags"];
const OURS = Array.from(
  newest.migrations.keys(),
  (path) => path.replace(/^migrations\/\d+_(.+)\.sql$/, "$1"),
);

/** Objects of the app, besides a handler, that are in schema billing or use it. */
const MINE = `
  create table billing.mine (id int);
  create table public.billing_mine (id text references billing.subscriptions);
  create view public.my_plans as select plan_id from billing.subscriptions;
  create view public.my_windows as select id from public.billing_subscriptions;
  create function public.mine(event billing.event) returns int
    language sql as 'select 1';
  create policy mine on public.tags using (public.billing_has_access('acc_1'));
  insert into billing.subscriptions (id, provider, account_id, status, plan_id)
  values ('sub_1', 'a', 'acc_1', 'active', 'plan_1');`;

const MINE_AWAY = `
  drop policy mine on public.tags;
  drop function public.mine, billing.on_charge_refunded;
  drop view public.my_plans, public.my_windows;
  drop table public.billing_mine, billing.mine;`;

Deno.test("docs/deploy.md: an app gets the receiver, updates it, has it beside its own functions, and leaves it", async (test) => {
  await using opened = new AsyncDisposableStack();
  const hosted = opened.use(await createHostedProject({ port, name: "app" }));
  const app = opened.use(await makeProject(MIGRATIONS));
  const copy = opened.use(await copyRepository());
  const clone = opened.use(await openDeployer(hosted, copy.path));
  const { type } = opened.use(await openDeployer(hosted, app.path));
  const { api } = hosted;
  const sql = postgres(hosted.databaseUrl, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());

  assertWorks(
    await type(
      `supabase init --yes; ${setLocalPort}; echo '${HELLO}' >> supabase/config.toml`,
    ),
  );
  for (const [name, text] of Object.entries(FUNCTIONS)) {
    await app.write(name, text);
  }

  async function add(options: string): Promise<Typed> {
    await app.commit();
    return await type(
      `cd '${clone.path}' && INIT_CWD='${app.path}' deno task add . ${options}`,
    );
  }
  async function appliedNames(): Promise<string[]> {
    const rows = await sql`
      select name from supabase_migrations.schema_migrations order by version`;
    return rows.map(({ name }) => String(name));
  }
  const around = async () => ({
    jobs: [...await sql`select jobname from cron.job order by 1`],
    secrets: [...await sql`select name from vault.secrets order by 1`],
    functions: [...api.uploads.keys()],
    settings: Object.fromEntries(api.secrets),
  });
  async function deployHello() {
    const deploy = "supabase functions deploy hello --use-api";
    assertWorks(await type(deploy, { env }));
    return structuredClone(api.uploads.get("hello"));
  }

  // The project before: its own migrations, function and settings.
  {
    await using _extensions = await installSupabaseExtensions(
      setting("TEST_PG_SHARE_DIR"),
    );
    await sql.unsafe(`
      create extension pg_cron schema pg_catalog;
      create extension pg_net schema extensions;
      create extension supabase_vault;
      select cron.schedule('of the app', '* * * * *', 'select 1');
      select vault.create_secret('secret', 'of the app');`);
  }
  const link = block("cd ../my-app").replace("../my-app", `'${app.path}'`);
  assertWorks(await type(link, { input: ACCESS_TOKEN }));
  await migrate(hosted.databaseUrl, app.path);
  const helloBefore = await deployHello();
  api.secrets.set("OF_THE_APP", "1");
  await sql`
    create policy notes on public.notes for select to authenticated using (true)`;
  assertEquals(await appliedNames(), THEIRS);
  const before = {
    schema: await schemaOf(sql),
    around: await around(),
    tree: await app.tree(),
  };

  await test.step("added: a push, which a name that is taken in the database stops", async () => {
    assertWorks(await add("--yes"));

    await sql`create table public.billing_subscriptions (user_id int)`;
    const { code, output } = await type(push, { env });
    const taken = "these names are taken: table billing_subscriptions";
    assertStringIncludes(output, `Nothing was created, because ${taken}`);
    assertEquals([code, await appliedNames()], [1, THEIRS]);
    await sql`drop table public.billing_subscriptions`;

    assertWorks(await type(push, { env }));
    assertEquals(await appliedNames(), [...THEIRS, ...OURS]);
    // `--remote` keeps the local database out.
    await withDatabase(databaseUrls(port).url, async (sql) => {
      const [row] = await sql`select to_regclass('public.tags') as found`;
      assertEquals(row?.["found"], null);
    });
  });

  const firstTag = "migrations/20990201000000_first_tag.sql";
  const firstTagText = "insert into public.tags values (1);\n";
  await test.step("1. and 2. Updated to a second release, after the app made a migration and a handler of its own", async () => {
    await sql`
      create function billing.on_charge_refunded(provider text, event jsonb)
      returns void language sql as ''`;
    const second = "supabase/migrations/20991231000000_billing_second.sql";
    await Deno.writeTextFile(
      `${clone.path}/${second}`,
      "comment on schema billing is 'Second'",
    );
    await app.write(firstTag, firstTagText);

    assertEquals((await add("--check")).code, 1);
    // It asks, and the page's folder is beside the clone.
    const update = block("deno task add ../my-app")
      .replace("../my-app", `'${app.path}' --yes`);
    assertWorks(await clone.type(update));
    assertWorks(await add("--check"));

    assertWorks(await type(push, { env }));
    const all = [...THEIRS, ...OURS, "first_tag", "billing_second"];
    assertEquals(await appliedNames(), all);
    await sql`select billing.on_charge_refunded('a', '{}')`;
    await Deno.remove(`${clone.path}/${second}`);
  });

  await test.step("3. The functions: what they need, and nothing besides; that of before is deployed byte for byte. 5. Secrets, 6. The schedule", async () => {
    assertEquals(await deployHello(), helloBefore);
    assertWorks(await type(deployFunctions, { env }));
    for (const name of ["billing-webhook", "billing-worker"]) {
      const { metadata, files } = api.uploads.get(name)!;
      assertEquals(metadata.verify_jwt, false);
      const own = new RegExp(
        `^supabase/functions/(${name}/(deno\\.(json|lock)|.+\\.ts)|_shared/billing/.+\\.ts)$`,
      );
      assertEquals([...files.keys()].filter((path) => !own.test(path)), []);
    }

    assertWorks(await type(setSecrets, { env }));
    api.secrets.set("HANDLE_EVENT_TYPES", "charge.refunded");
    await sql.unsafe(
      block("select billing.schedule_worker")
        .replace("https://<project-ref>.supabase.co", hosted.url)
        .replace("sb_secret_...", secret),
    );
  });

  await test.step("7. The doctor, 8. The first event", async () => {
    await using _running = await hosted.run();
    const input = [secret, hosted.databaseUrl, SIGNING_SECRET, ""].join("\n");
    assertWorks(await clone.type(runDoctor, { input }));

    const region = "forceFunctionRegion=eu-central-1";
    const url = `${hosted.url}/functions/v1/billing-webhook?${region}`;
    const event = "customer.subscription.created --account acc_deployed";
    const trigger = `deno task trigger ${event} --url '${url}'`;
    const signing = { PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET };
    const sent = await clone.type(trigger, { env: signing });
    assertStringIncludes(assertWorks(sent), "200 OK");

    const queries = block("select id, account_id").trim().split("\n");
    const [row] = await sql.unsafe(queries[0]!);
    assertEquals(row?.["account_id"], "acc_deployed");
    const [health] = await sql.unsafe(queries[1]!);
    assertEquals(health?.["open_failures"], "0");
  });

  await test.step("Taken out, 1. What is pending", async () => {
    const { jobs, secrets } = await around();
    assertEquals([jobs.length, secrets.length], [3, 3]);
    await sql.unsafe(block("select notifications_pending"));
  });

  const leave = block("do $$");
  const migrations = join(app.path, "supabase/migrations");
  await test.step("Taken out, 2. As long as something of the app is in the way, it is listed, and nothing is changed", async () => {
    await sql.unsafe(MINE).simple();
    const used = await schemaOf(sql);
    const refused = await sql.unsafe(leave).catch((error) => error);
    assertStringIncludes(
      refused.message,
      "These are yours, or use the receiver: constraint billing_mine_id_fkey on table billing_mine, function billing.on_charge_refunded(text,jsonb), function mine(billing.event), policy mine on table tags, rule _RETURN on view my_plans, rule _RETURN on view my_windows, table billing.mine",
    );
    assertEquals(await schemaOf(sql), used);
    assertEquals((await around()).jobs.length, 3);
  });

  await test.step("Taken out, 2. Pushed: the schema is what it was before the receiver", async () => {
    assertWorks(await type(block("supabase migration new")));
    const [name] = [...Deno.readDirSync(migrations)].map(({ name }) => name)
      .filter((name) => name.endsWith("_billing_leave.sql"));
    await Deno.remove(join(migrations, name!));
    // It has to come after the migrations of the project that are dated ahead.
    const file = join(migrations, "20991231000000_billing_leave.sql");
    await Deno.writeTextFile(file, `${MINE_AWAY}\n${leave}`);
    assertWorks(await type(push, { env }));
    assertEquals(await schemaOf(sql), before.schema);
    assertEquals([...await sql`select to_regnamespace('billing') as left`], [
      { left: null },
    ]);
  });

  await test.step("Taken out, 3. The functions and secrets", async () => {
    assertWorks(
      await type(block("supabase functions delete"), { env }),
    );
    api.secrets.delete("HANDLE_EVENT_TYPES"); // It named a handler of the app's.
    assertEquals(await around(), before.around);
  });

  await test.step("Taken out, 4. The files, and the history", async () => {
    assertWorks(await type(block("rm -r")));

    // The page has a person take the sections out by hand.
    const config = join(app.path, "supabase/config.toml");
    let text = await Deno.readTextFile(config);
    for (const name of ["billing-webhook", "billing-worker"]) {
      const section = `[functions.${name}]`;
      assertStringIncludes(readPage(PAGE), `\`${section}\``);
      const [before, after = ""] = text.split(`\n${section}`);
      text = before + after.replace(/^[^]*?(?=\n\[|$(?![^]))/, "");
    }
    await Deno.writeTextFile(config, text);

    assertWorks(await type(block("files="), { env }));
    assertEquals(await app.tree(), {
      ...before.tree,
      [firstTag]: firstTagText,
    });
    assertEquals(await appliedNames(), [...THEIRS, "first_tag"]);
  });

  await test.step("added again, it is there again", async () => {
    assertWorks(await add("--yes"));
    await migrate(hosted.databaseUrl, app.path);
    assertEquals([...await sql`table billing.subscriptions`], []);
  });
  assertEquals(api.faults, []);
});

Deno.test("docs/deploy.md: every block is typed here, or by tests/stripe_sync or tests/docs", () => {
  const elsewhere =
    /^(deno task (reconcile|trigger|doctor --url)|npm pack|npx --yes|cp |export SUPABASE_URL=\S+\nread -rs STRIPE)/;
  assertEquals([...left].filter((text) => !elsewhere.test(text)), []);
});

Deno.test("an app with subscriptions and declarative schemas of its own, and short numbers, gets the receiver beside them", async () => {
  const tables = "create table subscriptions (id int);";
  await using project = await makeProject({
    "config.toml": "",
    "migrations/0007_init.sql": tables,
    "schemas/tables.sql": tables,
  });
  const { url } = await createDatabase(port, { name: "declarative" });
  await migrate(url, project.path);

  const { todo, blockers } = await project.add(newest);
  assertEquals([todo, blockers], [[], []]);

  await migrate(url, project.path);
  const made = await withDatabase(url, async (sql) => {
    const rows = await sql`
      select version || ' ' || name as applied
      from supabase_migrations.schema_migrations order by version`;
    const all = ["init", ...OURS].map((name, at) => `000${7 + at} ${name}`);
    assertEquals(rows.map((row) => row["applied"]), all);
    return await schemaOf(sql);
  });

  // "supabase db schema declarative sync" builds a database from the whole folder,
  // which needs Docker, and makes a migration of the difference: there is none.
  const tree = await project.tree();
  const schemas = Object.keys(tree).filter((it) => it.startsWith("schemas/"))
    .sort();
  assertEquals(schemas.length, 1 + newest.schemas.size);
  const declared = await createDatabase(port, { name: "declared" });
  await withDatabase(declared.url, async (sql) => {
    await sql.unsafe("set check_function_bodies = off").simple();
    for (const path of ["schemas/tables.sql", ...schemas.slice(0, -1)]) {
      await sql.unsafe(tree[path]!).simple();
    }
    assertEquals(await schemaOf(sql), made);
  });
});
