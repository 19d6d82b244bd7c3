/**
 * docs/leave.md: its commands and its SQL take the receiver out of a project, and
 * leave everything else as it was.
 *
 * @module
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import postgres from "postgres";
import { readPage } from "../support/doc_commands.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import { migrateFrom } from "../support/migrate_part.ts";
import { readDoc, sqlBlocks } from "../support/sql_blocks.ts";
import type { ProjectTerminal, Typed } from "./deployer.ts";
import type { HostedProject } from "./hosted_project.ts";
import { readBlocks } from "./page_blocks.ts";

const PAGE = "docs/leave.md";
/** The blocks of docs/leave.md; a test asserts that none is left. */
export const LEAVE_BLOCKS = readBlocks(PAGE);
const { block } = LEAVE_BLOCKS;

/** A hosted project of somebody else's that has the receiver. */
export interface ProjectWithReceiver {
  readonly app: ProjectTerminal;
  readonly hosted: HostedProject;
  /** A connection to its hosted database. */
  readonly sql: postgres.Sql;
}

/** Everything that is to be as before. */
export interface ProjectState {
  readonly schema: readonly string[];
  readonly around: Awaited<ReturnType<typeof around>>;
  readonly tree: Readonly<Record<string, string>>;
}

/** Reads a project's schema, what is around it, and its files. */
export async function stateOf(
  project: ProjectWithReceiver,
): Promise<ProjectState> {
  return {
    schema: await dumpSchema(project.sql),
    around: await around(project),
    tree: await treeOf(project.app.path),
  };
}

/** What is outside of schema public, and what the platform has. */
async function around({ hosted: { api }, sql }: ProjectWithReceiver) {
  return {
    jobs: [...await sql`select jobname from cron.job order by 1`],
    secrets: [...await sql`select name from vault.secrets order by 1`],
    functions: [...api.uploads.keys()],
    settings: Object.fromEntries(api.secrets),
  };
}

function assertWorks({ code, said }: Typed): string {
  assertEquals(code, 0, said);
  return said;
}

/** All files of a project, but those of git and of the CLI. */
async function treeOf(
  folder: string,
  below = "",
): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const { name, isDirectory } of Deno.readDir(join(folder, below))) {
    if (name === ".git" || name === ".temp") continue;
    const path = join(below, name);
    if (isDirectory) Object.assign(files, await treeOf(folder, path));
    else files[path] = await Deno.readTextFile(join(folder, path));
  }
  return files;
}

/** Whether a statement of a dump makes a table, or a part or right of it. */
function concerns(text: string, table: string): boolean {
  return new RegExp(
    `^(create table|alter table|create (unique )?index \\S+ on|create policy .* on|comment on (table|column)|comment on index|grant .* on table|alter publication .* table) public\\.${table}\\b`,
    "i",
  ).test(text);
}

/** What the page has the reader delete by hand. */
async function editByHand(project: ProjectTerminal): Promise<void> {
  const page = readPage(PAGE);
  const config = join(project.path, "supabase/config.toml");
  let text = await Deno.readTextFile(config);
  for (const name of ["billing-webhook", "billing-worker"]) {
    const section = `[functions.${name}]`;
    assertStringIncludes(page, `\`${section}\``);
    assertStringIncludes(text, section);
    const [before, after = ""] = text.split(`\n${section}`);
    text = before + after.replace(/^[^]*?(?=\n\[|$(?![^]))/, "");
  }
  await Deno.writeTextFile(config, text);

  const example = join(project.path, "supabase/functions/.env.example");
  const [begin, end] = ["# billing-webhook begins.", "# billing-webhook ends."];
  for (const line of [begin, end]) assertStringIncludes(page, `\`${line}\``);
  const settings = await Deno.readTextFile(example);
  const rest = settings.slice(0, settings.indexOf(begin)) +
    settings.slice(settings.indexOf(end) + end.length + 1);
  if (rest === "") await Deno.remove(example);
  else await Deno.writeTextFile(example, rest);
}

/** A record, and what docs/app.md has the app grant. */
async function putAppsPart(sql: postgres.Sql): Promise<void> {
  for (const statement of sqlBlocks(await readDoc("app.md"), "app.md")) {
    if (/^grant select|policy "Users read/.test(statement.sql)) {
      await sql.unsafe(statement.sql).simple();
    }
  }
  await sql`
    insert into public.subscriptions
      (id, provider, account_id, status, plan_id, current_period_end)
    values ('sub_1', 'a', 'acc_1', 'active', 'plan_1', now())`;
}

/**
 * Takes the receiver out of a project by the page.
 *
 * @param options.before The project without the receiver.
 * @param options.add Adds it to the project's folder again.
 */
export async function leaveProject(
  test: Deno.TestContext,
  project: ProjectWithReceiver,
  { before, add }: { before: ProjectState; add: () => Promise<Typed> },
): Promise<void> {
  const { app, hosted, sql } = project;
  const env = { SUPABASE_YES: "1" };
  const push = block("supabase db push");

  await test.step("leave.md, 1. What is pending", async () => {
    await putAppsPart(sql);
    const { jobs, secrets } = await around(project);
    assertEquals([jobs.length, secrets.length], [3, 3]);
    await sql.unsafe(block("select notifications_pending"));
  });

  const leave = block("do $$");
  const migrations = join(app.path, "supabase/migrations");
  let file = "";
  await test.step("leave.md, 2. As long as something of the app depends on it, nothing is changed", async () => {
    await sql`create view public.my_plans as select plan_id from public.subscriptions`;
    await sql`
      create policy members on public.tags for select to authenticated
        using (public.has_access('acc_1'))`;
    const used = await dumpSchema(sql);
    assertWorks(await app.type(block("supabase migration new")));
    const [name] = [...Deno.readDirSync(migrations)].map(({ name }) => name)
      .filter((name) => name.endsWith("_billing_leave.sql"));
    // Behind the migrations of the project that are dated ahead.
    file = join(migrations, "20991231000000_billing_leave.sql");
    await Deno.rename(join(migrations, name!), file);
    async function assertUnchanged() {
      assertEquals(await dumpSchema(sql), used);
      assertEquals((await around(project)).jobs.length, 3);
    }
    const refused = await assertRejects(
      () => sql.unsafe(leave),
      postgres.PostgresError,
    );
    assertStringIncludes(refused.detail ?? "", "policy members on table tags");
    await assertUnchanged();
    // What stands before the refused statement is undone as well.
    await Deno.writeTextFile(
      file,
      `drop policy members on public.tags;\n${leave}`,
    );
    const { code, said } = await app.type(push, { env });
    assertEquals(code, 1, said);
    assertStringIncludes(said, "view my_plans");
    await assertUnchanged();
  });

  await test.step("leave.md, 2. Pushed: the schema is what it was before the receiver", async () => {
    const top =
      "drop policy members on public.tags; drop view public.my_plans;";
    await Deno.writeTextFile(file, `${top}\n${leave}`);
    assertWorks(await app.type(push, { env }));
    assertEquals(await dumpSchema(sql), before.schema);
  });

  await test.step("leave.md, 3. The functions and secrets", async () => {
    assertWorks(
      await app.type(block("supabase functions delete"), { env }),
    );
    assertEquals(await around(project), before.around);
  });

  await test.step("leave.md, 4. The files, and the history", async () => {
    assertWorks(await app.type(block("rm -r")));
    await editByHand(app);
    const { said } = await app.type(push, { env });
    assertStringIncludes(said, "up to date");
    assertWorks(await app.type(block("files="), { env }));
    const after = await treeOf(app.path);
    // It keeps functions/.env out of git, which is right without the receiver.
    after["supabase/.gitignore"] = before.tree["supabase/.gitignore"]!;
    assertEquals(after, before.tree);
    assertStringIncludes(
      assertWorks(await app.type(push, { env })),
      "up to date",
    );
  });

  await test.step("added again, it is there again", async () => {
    assertWorks(await add());
    await migrateFrom(app.path, hosted.databaseUrl);
    const [row] = await sql`select * from public.excess_billing_rights()`;
    assertEquals(row, undefined);
    const [kept] = await sql`select count(*)::int from public.subscriptions`;
    assertEquals(kept?.count, 0);
  });

  await test.step("with data kept: the tables, their rows, rights and policies", async () => {
    const all = [
      "failed_events",
      "notification_pace",
      "notifications",
      "processed_events",
      "subscriptions",
    ];
    await putAppsPart(sql);
    const full = await dumpSchema(sql);
    const undo = new Error("undo");
    for (const kept of [all, ["subscriptions"]]) {
      const statements = leave.replace("'{}'", `'{${kept.join(",")}}'`);
      const ended = sql.begin(async (transaction) => {
        await transaction.unsafe(statements);
        const after = await dumpSchema(transaction);
        assertEquals(
          after,
          full.filter((text) =>
            before.schema.includes(text) ||
            kept.some((name) => concerns(text, name))
          ),
        );
        const rows = await transaction`select id from public.subscriptions`;
        assertEquals(rows.length, 1);
        throw undo;
      });
      await ended.catch((error) => {
        if (error !== undo) throw error;
      });
    }
  });
}
