/**
 * docs/deploy.md: its commands, typed with an unused CLI, bring the receiver to a project
 * of its own and to one that has an app, and take it out again. A clone deploys its sources.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import postgres from "postgres";
import { FUNCTIONS } from "../../scripts/common/built.ts";
import {
  databaseUrls,
  LOCAL_PASSWORD,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { createDatabase, migrate } from "../support/databases.ts";
import { fencedBlocks, readPage } from "../support/docs.ts";
import { makeProject, newest } from "../support/project_folder.ts";
import { post } from "../support/send.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import { NPX, type Typed } from "../support/terminal.ts";
import { schemaOf } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import {
  ACCESS_TOKEN,
  assertWorks,
  createHostedProject,
  LIVE_SECRET,
  openDeployer,
  SIGNING_SECRET,
} from "./hosted_project.ts";

const env = { SUPABASE_YES: "1" };
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
/** Shows the CLI the local database, which `--remote` has to keep out. */
const setLocalPort =
  `sed -i 's/^port = 54322/port = ${port}/' supabase/config.toml`;
const { secret } = await localKeys();

const PAGE = "docs/deploy.md";
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
const addCommands = block(`cd ../my-app\n${NPX} add .`);
const link = block("supabase login");
const push = block("supabase db push --remote");
const deployFunctions = block("supabase functions deploy billing-webhook");
const setSecrets = block(
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_...",
);
const runDoctor = block(
  "export SUPABASE_URL=https://<project-ref>.supabase.co\nread -rs SUPABASE_SECRET",
);

Deno.test("docs/deploy.md: a project of its own, in CI, by token and password", async () => {
  await using opened = new AsyncDisposableStack();
  const hosted = opened.use(await createHostedProject({ port, name: "own" }));
  const project = opened.use(await makeProject({}));
  const { path } = project;
  const { type } = opened.use(await openDeployer(hosted, { folder: path }));
  const { api, databaseUrl } = hosted;
  assertWorks(await type(`${block("git init")}\n${setLocalPort}`));
  await project.add(newest);

  const ci = {
    SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
    SUPABASE_DB_PASSWORD: LOCAL_PASSWORD,
  };
  const byToken = link.replace("supabase login\n", "");
  const { code, output } = await type(`${byToken}\n${push}`, { env: ci });
  assertStringIncludes(output, "Confirmation required");
  assertEquals(code, 1);

  assertWorks(await type(push, { env: { ...env, ...ci } }));
  await withDatabase(databaseUrl, async (sql) => {
    const rows = await sql`
      select name from supabase_migrations.schema_migrations order by version`;
    assertEquals(rows.map((row) => row["name"]), OURS);
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

Deno.test("a clone deploys the sources of its functions, complete", async () => {
  await using opened = new AsyncDisposableStack();
  const hosted = opened.use(await createHostedProject({ port, name: "clone" }));
  const folder = opened.use(await copyRepository()).path;
  const { type } = opened.use(await openDeployer(hosted, { folder }));
  assertWorks(await type(link, { input: ACCESS_TOKEN }));
  assertWorks(await type(deployFunctions, { env }));

  for (const { metadata } of hosted.api.uploads.values()) {
    assertEquals(metadata.verify_jwt, false);
  }
  await using _running = await hosted.run();
  const webhook = `${hosted.url}/functions/v1/billing-webhook`;
  assertEquals((await post(webhook, {})).body, "Invalid signature");
});

const HELLO_FILES = {
  "functions/hello/deno.json": '{ "imports": {} }\n',
  "functions/hello/index.ts":
    'export { hello as default } from "../_shared/database.ts";\n',
  "functions/_shared/database.ts":
    "export const hello = { fetch: () => new Response() };\n",
};
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
  "migrations/20990101000000_tags.sql":
    "create table public.tags (id int primary key);\n",
};
const THEIRS = ["notes", "profiles", "tags"];
const OURS = Array.from(
  newest.migrations.keys(),
  (path) => path.replace(/^migrations\/\d+_(.+)\.sql$/, "$1"),
);

/** Objects of the app, besides a handler, that use the receiver or are in it. */
const MINE = `
  create table billing.mine (id int);
  create table public.billing_mine (id text references billing.subscriptions);
  create view public.my_plans as select plan_id from billing.subscriptions;
  create view public.my_windows as select id from public.billing_subscriptions;
  create function public.my_argument(event billing.event) returns int
    language sql as 'select 1';
  create function public.my_body() returns trigger
    language plpgsql as 'begin perform billing.prune(); return new; end';
  create function public.my_own() returns trigger
    language plpgsql as 'begin perform billing_address; return new; end';
  create function public.billing_has_access(account_id uuid) returns boolean
    return true;
  create policy mine on public.tags using (public.billing_has_access('acc_1'));
  create policy mine on billing.plan_features using (true);
  create trigger mine before insert on billing.customers
    for each row execute function public.my_own();
  alter table billing.plan_features add tag int references public.tags;
  insert into billing.subscriptions (id, provider, account_id, status, plan_id)
  values ('sub_1', 'a', 'acc_1', 'active', 'plan_1');`;

const NAMED = [
  "constraint billing_mine_id_fkey on table billing_mine",
  "constraint plan_features_tag_fkey on table billing.plan_features",
  "function billing.on_charge_refunded(text,jsonb)",
  "function billing_has_access(uuid)",
  "function my_argument(billing.event)",
  "function my_body()",
  "policy mine on table billing.plan_features",
  "policy mine on table tags",
  "rule _RETURN on view my_plans",
  "rule _RETURN on view my_windows",
  "table billing.mine",
  "trigger mine on table billing.customers",
];

const MINE_AWAY = `
  drop policy mine on public.tags;
  drop policy mine on billing.plan_features;
  drop trigger mine on billing.customers;
  drop function public.my_argument, public.my_body, public.my_own,
    public.billing_has_access(uuid), billing.on_charge_refunded;
  drop view public.my_plans, public.my_windows;
  drop table public.billing_mine, billing.mine;
  alter table billing.plan_features drop tag;
`;

Deno.test("docs/deploy.md: an app gets the receiver, updates it, and leaves it", async (test) => {
  await using opened = new AsyncDisposableStack();
  const hosted = opened.use(await createHostedProject({ port, name: "app" }));
  const app = opened.use(await makeProject(MIGRATIONS));
  const clone = opened.use(await copyRepository());
  const folders = { folder: app.path, clone: clone.path };
  const { type } = opened.use(await openDeployer(hosted, folders));
  const { api } = hosted;
  const sql = postgres(hosted.databaseUrl, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());

  assertWorks(
    await type(
      `supabase init --yes; ${setLocalPort}; echo '${HELLO}' >> supabase/config.toml`,
    ),
  );
  for (const [name, text] of Object.entries(HELLO_FILES)) {
    await app.write(name, text);
  }

  const addHere = addCommands.trim().replace("../my-app", `'${app.path}'`);
  async function add(option: string): Promise<Typed> {
    await app.commit();
    return await type(`${addHere} ${option}`);
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

  await test.step("added", async () => {
    assertWorks(await add("--yes"));
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
  await test.step("1. and 2. Updated, after the app made a migration and a handler", async () => {
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
    assertWorks(await type(`${addHere} --yes`));
    assertWorks(await add("--check"));

    assertWorks(await type(push, { env }));
    const all = [...THEIRS, ...OURS, "first_tag", "billing_second"];
    assertEquals(await appliedNames(), all);
    await sql`select billing.on_charge_refunded('a', '{}')`;
    await Deno.remove(`${clone.path}/${second}`);
  });

  await test.step("3. The functions, 5. Secrets, 6. The schedule", async () => {
    assertEquals(await deployHello(), helloBefore);
    assertWorks(await type(deployFunctions, { env }));
    for (const name of FUNCTIONS) {
      const { metadata, files } = api.uploads.get(name)!;
      assertEquals(metadata.verify_jwt, false);
      const path = `supabase/functions/${name}/index.mjs`;
      assertEquals([...files.keys()], [path]);
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
    assertWorks(await type(runDoctor, { input }));

    const region = "forceFunctionRegion=eu-central-1";
    const url = `${hosted.url}/functions/v1/billing-webhook?${region}`;
    const event = "customer.subscription.created --account acc_deployed";
    const trigger = `${NPX} trigger ${event} --url '${url}'`;
    const signing = { PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET };
    const sent = await type(trigger, { env: signing });
    assertStringIncludes(assertWorks(sent), "200 OK");

    const queries = block("select id, account_id").trim().split("\n");
    const [row] = await sql.unsafe(queries[0]!);
    assertEquals(row?.["account_id"], "acc_deployed");
    const [health] = await sql.unsafe(queries[1]!);
    assertEquals(health?.["open_failures"], "0");
  });

  let next: string[] = [];
  const typeNext = async (start: string) =>
    assertWorks(
      await type(next.filter((line) => line.startsWith(start)).join("\n"), {
        env,
      }),
    );
  await test.step("Taken out: the push lists what of the app is in the way, and changes nothing", async () => {
    const remove = block(`${NPX} remove .`).trim();
    const output = assertWorks(await type(`${remove} --yes`));
    next = Array.from(
      output.matchAll(/^ {2}((?:supabase|rm) .+)$/gm),
      ([, it]) => it!,
    );

    await sql.unsafe(MINE).simple();
    const used = { schema: await schemaOf(sql), around: await around() };
    assertEquals([used.around.jobs.length, used.around.secrets.length], [3, 3]);
    const refused = await type(push, { env });
    assertEquals(refused.code, 1);
    const [, listed] = /are part of it: (.+)\. Drop or/.exec(refused.output) ??
      [];
    assertEquals(listed?.split(", "), NAMED);
    assertEquals({ schema: await schemaOf(sql), around: await around() }, used);
  });

  await test.step("Taken out: all is as before, but for the migrations", async () => {
    const file = join(app.path, next.at(-1)!.split(" ").at(-1)!);
    const migration = await Deno.readTextFile(file);
    await Deno.writeTextFile(file, MINE_AWAY + migration);
    await typeNext("supabase db push");
    assertEquals(await schemaOf(sql), before.schema);
    assertEquals([...await sql`select to_regnamespace('billing') as left`], [
      { left: null },
    ]);

    await typeNext("supabase functions");
    await typeNext("supabase secrets");
    api.secrets.delete("HANDLE_EVENT_TYPES"); // It named a handler of the app's.
    assertEquals(await around(), before.around);
    assertEquals((await appliedNames()).at(-1), "billing_remove");
  });

  await test.step("Taken out: and without them, once the history is repaired", async () => {
    await typeNext("supabase migration repair");
    await typeNext("rm ");
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

Deno.test("docs/deploy.md: every block is typed here or in other tests", () => {
  const elsewhere = new RegExp(
    `^(npm pack|${NPX} (doctor --url|reconcile|start|trigger)|echo |export SUPABASE_URL=\\S+\nread -rs STRIPE)`,
  );
  assertEquals([...left].filter((text) => !elsewhere.test(text)), []);
});

Deno.test("an app with its own subscriptions, declarative schemas and short numbers gets the receiver", async () => {
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
