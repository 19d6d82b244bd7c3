/**
 * docs/deploy.md, "Take the receiver out": its commands and its SQL leave
 * everything else of a project as it was.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type postgres from "postgres";
import { readPage } from "../support/docs.ts";
import { schemaOf } from "./schema_of.ts";
import { migrate } from "../support/databases.ts";
import type { makeProject } from "../support/project_folder.ts";
import type { Terminal, Typed } from "../support/terminal.ts";
import { assertWorks, type HostedProject } from "./hosted_project.ts";
import type { readBlocks } from "./page_blocks.ts";

const PAGE = "docs/deploy.md";

/** What the app has made, besides a handler, in schema billing, or with what is in it. */
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

/** A project of somebody else's, in a folder and hosted. */
interface AppProject {
  readonly app: Awaited<ReturnType<typeof makeProject>>;
  /** Types in the folder. */
  readonly type: Terminal["type"];
  readonly hosted: HostedProject;
  /** A connection to its hosted database. */
  readonly sql: postgres.Sql;
}

/** Everything that is to be as before. */
type ProjectState = Awaited<ReturnType<typeof stateOf>>;

/** Reads a project's schema, what is around it, and its files. */
export async function stateOf(project: AppProject) {
  return {
    schema: await schemaOf(project.sql),
    around: await around(project),
    tree: await project.app.tree(),
  };
}

/** What is outside of schema public, and what the platform has. */
async function around({ hosted: { api }, sql }: AppProject) {
  return {
    jobs: [...await sql`select jobname from cron.job order by 1`],
    secrets: [...await sql`select name from vault.secrets order by 1`],
    functions: [...api.uploads.keys()],
    settings: Object.fromEntries(api.secrets),
  };
}

/**
 * Takes the receiver out of a project by the page.
 *
 * @param options.block The page's blocks, by what they begin with.
 * @param options.before The project without the receiver.
 * @param options.add Adds it to the project's folder again.
 */
export async function leaveProject(
  test: Deno.TestContext,
  project: AppProject,
  { block, before, add }: {
    block: ReturnType<typeof readBlocks>["block"];
    before: ProjectState;
    add: () => Promise<Typed>;
  },
): Promise<void> {
  const { app, type, hosted, sql } = project;
  const env = { SUPABASE_YES: "1" };
  const push = block("supabase db push --remote");

  await test.step("Taken out, 1. What is pending", async () => {
    const { jobs, secrets } = await around(project);
    assertEquals([jobs.length, secrets.length], [3, 3]);
    await sql.unsafe(block("select notifications_pending"));
  });

  const leave = block("do $$");
  const migrations = join(app.path, "supabase/migrations");
  let file = "";
  await test.step("Taken out, 2. As long as something of the app is in the way, it is listed, and nothing is changed", async () => {
    await sql.unsafe(MINE).simple();
    const used = await schemaOf(sql);
    assertWorks(await type(block("supabase migration new")));
    const [name] = [...Deno.readDirSync(migrations)].map(({ name }) => name)
      .filter((name) => name.endsWith("_billing_leave.sql"));
    // Behind the migrations of the project that are dated ahead.
    file = join(migrations, "20991231000000_billing_leave.sql");
    await Deno.rename(join(migrations, name!), file);
    // What stands before the refused statement is undone as well.
    await Deno.writeTextFile(file, `drop policy mine on tags;\n${leave}`);
    const { code, said } = await type(push, { env });
    assertEquals(code, 1, said);
    assertStringIncludes(
      said,
      "These are yours, or use the receiver: constraint billing_mine_id_fkey on table billing_mine, function billing.on_charge_refunded(text,jsonb), function mine(billing.event), rule _RETURN on view my_plans, rule _RETURN on view my_windows, table billing.mine",
    );
    assertEquals(await schemaOf(sql), used);
    assertEquals((await around(project)).jobs.length, 3);
    const refused = await sql.unsafe(leave).catch((error) => error);
    assertStringIncludes(refused.message, "policy mine on table tags");
  });

  await test.step("Taken out, 2. Pushed: the schema is what it was before the receiver", async () => {
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
    assertEquals(await around(project), before.around);
  });

  await test.step("Taken out, 4. The files, and the history", async () => {
    assertWorks(await type(block("rm -r")));
    // By hand.
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
    assertEquals(await app.tree(), before.tree);
    assertStringIncludes(
      assertWorks(await type(push, { env })),
      "up to date",
    );
  });

  await test.step("added again, it is there again", async () => {
    assertWorks(await add());
    await migrate(hosted.databaseUrl, app.path);
    assertEquals([...await sql`table billing.subscriptions`], []);
  });
}
