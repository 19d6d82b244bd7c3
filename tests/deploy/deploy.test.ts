/**
 * docs/deploy.md: its commands, typed with an unused CLI, bring the receiver to a hosted project on this machine: one of its own, and one
 * that has an app, which updates it and takes it out again.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import {
  databaseUrls,
  LOCAL_PASSWORD,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { copyRepository } from "../support/copy_repository.ts";
import {
  createDatabase,
  migrateByCli,
  migrationNames,
} from "../support/databases.ts";
import { makeProject, receiver } from "../support/project_folder.ts";
import { installSupabaseExtensions } from "../support/supabase_extensions.ts";
import type { Typed } from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";
import {
  assertWorks,
  createHostedProject,
  LIVE_SECRET,
  openDeployer,
  SIGNING_SECRET,
} from "./hosted_project.ts";
import { leaveProject, stateOf } from "./leave_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";
import { readBlocks } from "./page_blocks.ts";
import { schemaOf } from "./schema_of.ts";

/** What a person answers when the CLI asks. */
const env = { SUPABASE_YES: "1" };
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
/** Where the CLI finds the local database, which `--remote` has to keep out. */
const setLocalPort =
  `sed -i 's/^port = 54322/port = ${port}/' supabase/config.toml`;
const { secret } = await localKeys();

const { block, left } = readBlocks("docs/deploy.md");
const login = block("supabase login");
const push = block("supabase db push --remote");
const deployFunctions = block("supabase functions deploy billing-webhook");
const setSecrets = block(
  "supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_...",
);
const runDoctor = block(
  "export SUPABASE_URL=https://<project-ref>.supabase.co\nread -rs SUPABASE_SECRET",
);

Deno.test("docs/deploy.md: the receiver comes to a project of its own", async (test) => {
  await using opened = new AsyncDisposableStack();
  const project = opened.use(await createHostedProject({ port, name: "own" }));
  const { path } = opened.use(await copyRepository());
  const { type } = opened.use(await openDeployer(project, path));
  const { api, databaseUrl } = project;
  assertWorks(await type(setLocalPort));

  await test.step("1. A project of its own, 2. The database: nothing without a yes", async () => {
    assertWorks(await type(login, { input: ACCESS_TOKEN }));
    const { code, said } = await type(push);
    assertStringIncludes(said, "Confirmation required");
    assertEquals(code, 1);
    await withDatabase(databaseUrl, async (sql) => {
      const [is] = await sql`select to_regnamespace('billing') as there`;
      assertEquals(is?.["there"], null);
      assertWorks(await type(push, { env }));
      const rows = await sql`
        select version from supabase_migrations.schema_migrations order by 1`;
      const versions = migrationNames().map((name) => name.split("_")[0]);
      assertEquals(rows.map((row) => row["version"]), versions);
    });
  });

  await test.step("3. The functions: what they need, and nothing besides. 5. Secrets", async () => {
    assertWorks(await type(deployFunctions, { env }));
    const names = ["billing-webhook", "billing-worker"];
    assertEquals([...api.uploads.keys()], names);
    for (const [name, { metadata, files }] of api.uploads) {
      assertEquals(metadata.verify_jwt, false);
      const own = new RegExp(
        `^supabase/functions/(${name}/(deno\\.(json|lock)|.+\\.ts)|_shared/billing/.+\\.ts)$`,
      );
      assertEquals([...files.keys()].filter((path) => !own.test(path)), []);
    }
    assertWorks(await type(setSecrets, { env }));
    assertEquals(Object.fromEntries(api.secrets), {
      PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET,
    });
  });

  await test.step("7. The doctor, 8. The first event", async () => {
    await using _running = await project.run();
    const input = [secret, databaseUrl, SIGNING_SECRET, ""].join("\n");
    assertWorks(await type(runDoctor, { input }));

    const region = "forceFunctionRegion=eu-central-1";
    const url = `${project.url}/functions/v1/billing-webhook?${region}`;
    const event = "customer.subscription.created --account acc_deployed";
    const env = { PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET };
    const trigger = `deno task trigger ${event} --url '${url}'`;
    assertStringIncludes(assertWorks(await type(trigger, { env })), "200 OK");
    await withDatabase(databaseUrl, async (sql) => {
      const queries = block("select id, account_id").trim().split("\n");
      const [row] = await sql.unsafe(queries[0]!);
      assertEquals(row?.["account_id"], "acc_deployed");
      const [health] = await sql.unsafe(queries[1]!);
      assertEquals(health?.["open_failures"], "0");
    });
  });

  await test.step("8. Two secrets; the live one alone, and the mode", async () => {
    for (
      const [end, secrets, mode] of [
        [",", `${LIVE_SECRET},${SIGNING_SECRET}`, undefined],
        [" ", LIVE_SECRET, "live"],
      ] as const
    ) {
      const set =
        `supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_<live>${end}`;
      assertWorks(await type(block(set), { env }));
      assertEquals(api.secrets.get("PROVIDER_A_SIGNING_SECRET"), secrets);
      assertEquals(api.secrets.get("PROVIDER_A_MODE"), mode);
    }
  });

  await test.step("In CI: by token and password, without a terminal", async () => {
    const before = api.requests.length;
    await using machine = await openDeployer(project, path);
    const machineEnv = {
      ...env,
      SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
      SUPABASE_DB_PASSWORD: LOCAL_PASSWORD,
    };
    const link = login.replace("supabase login\n", "");
    const steps = [link, push, deployFunctions].join("\n");
    assertWorks(await machine.type(steps, { env: machineEnv }));
    const asked = api.requests.slice(before).join("\n");
    assert(!asked.includes("login-role"), asked);
    assertEquals(asked.match(/functions\/deploy/g)?.length, 2, asked);
  });
  assertEquals(api.faults, []);
});

/** What an app has: a function with a helper in `_shared`, and migrations. */
const FUNCTIONS = {
  "functions/hello/deno.json": '{ "imports": {} }\n',
  "functions/hello/index.ts":
    'export { hello as default } from "../_shared/database.ts";\n',
  "functions/_shared/database.ts":
    "export const hello = { fetch: () => new Response() };\n",
};
const MIGRATIONS = {
  "migrations/20240101000000_notes.sql":
    "create table public.notes (id int primary key, text text);\n",
  "migrations/20260101000000_profiles.sql": "",
  // Ahead of the receiver's.
  "migrations/20990101000000_tags.sql":
    "create table public.tags (id int primary key);\n",
};
const THEIRS = ["notes", "profiles", "tags"];

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
  const project = { app, type, hosted, sql };
  const init = "supabase init --yes; supabase functions new hello";
  assertWorks(await type(`${init}; ${setLocalPort}`));
  for (const [name, text] of Object.entries(FUNCTIONS)) {
    await app.write(name, text);
  }

  /** Runs add in the clone, for the app that the user is in. */
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
  /** Deploys the app's function; returns what was uploaded. */
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
  assertWorks(await type(push, { env }));
  const helloOfBefore = await deployHello();
  api.secrets.set("OF_THE_APP", "1");
  await sql`
    create policy notes on public.notes for select to authenticated using (true)`;
  assertEquals(await appliedNames(), THEIRS);
  const before = await stateOf(project);

  await test.step("added: a push, which a name that is taken in the database stops", async () => {
    assertWorks(await add("--yes"));
    await sql`create table public.billing_subscriptions (user_id int)`;
    const { code, said } = await type(push, { env });
    const taken = "these names are taken: table billing_subscriptions";
    assertStringIncludes(said, `Nothing was created, because ${taken}`);
    assertEquals([code, await appliedNames()], [1, THEIRS]);
    await sql`drop table public.billing_subscriptions`;
    assertWorks(await type(push, { env }));
    assertEquals(await appliedNames(), [...THEIRS, "billing"]);
    // `--remote` keeps the local database out.
    await withDatabase(databaseUrls(port).url, async (sql) => {
      const [row] = await sql`select to_regclass('public.tags') as found`;
      assertEquals(row?.["found"], null);
    });
  });

  const own = "migrations/20990201000000_first_tag.sql";
  const ownText = "insert into public.tags values (1);\n";
  await test.step("1. and 2. Updated to a second release, after the app made a migration and a handler of its own", async () => {
    await sql`
      create function billing.on_charge_refunded(provider text, event jsonb)
      returns void language sql as ''`;
    const second = "supabase/migrations/20261126000000_billing_note.sql";
    await Deno.writeTextFile(
      `${clone.path}/${second}`,
      "comment on schema billing is 'Second'",
    );
    await app.write(own, ownText);
    assertEquals((await add("--check")).code, 1);
    // It asks, and the page's folder is beside the clone.
    const update = block("deno task add ../my-app")
      .replace("../my-app", `'${app.path}' --yes`);
    assertWorks(await clone.type(update));
    assertWorks(await add("--check"));
    assertWorks(await type(push, { env }));
    const all = [...THEIRS, "billing", "first_tag", "billing_note"];
    assertEquals(await appliedNames(), all);
    await sql`select billing.on_charge_refunded('a', '{}')`;
    await Deno.remove(`${clone.path}/${second}`);
  });

  await test.step("3. The functions, and that of before is deployed byte for byte. 5. Secrets, 6. The schedule", async () => {
    assertEquals(await deployHello(), helloOfBefore);
    assertWorks(await type(deployFunctions, { env }));
    assertWorks(await type(setSecrets, { env }));
    await sql.unsafe(
      block("select billing.schedule_worker")
        .replace("https://<project-ref>.supabase.co", hosted.url)
        .replace("sb_secret_...", secret),
    );
  });

  await leaveProject(test, project, {
    block,
    before: { ...before, tree: { ...before.tree, [own]: ownText } },
    add: () => add("--yes"),
  });
  assertEquals(api.faults, []);
});

Deno.test("docs/deploy.md: every block is typed here, or by tests/stripe_sync or tests/docs", () => {
  const elsewhere =
    /^(deno task (reconcile|trigger|doctor --url)|npm pack|npx --yes|cp |export SUPABASE_URL=\S+\nread -rs STRIPE)/;
  assertEquals(left().filter((text) => !elsewhere.test(text)), []);
});

Deno.test("an app with subscriptions and declarative schemas of its own, and short numbers, gets the receiver beside them", async () => {
  const tables = "create table subscriptions (id int);";
  await using project = await makeProject({
    "config.toml": "",
    "migrations/0007_init.sql": tables,
    "schemas/tables.sql": tables,
  });
  const { url } = await createDatabase(port, { name: "declarative" });
  await migrateByCli(url, project.path);
  const { todo, blockers } = await project.add();
  assertEquals([todo, blockers], [[], []]);
  await migrateByCli(url, project.path);
  const made = await withDatabase(url, async (sql) => {
    const rows = await sql`
      select version || ' ' || name as applied
      from supabase_migrations.schema_migrations order by version`;
    const applied = rows.map((row) => row["applied"]);
    assertEquals(applied, ["0007 init", "0008 billing"]);
    return await schemaOf(sql);
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
    assertEquals(await schemaOf(sql), made);
  });
});
