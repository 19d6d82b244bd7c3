/**
 * A database that is rebuilt from a dump, in a project with the default
 * privileges from before 30 October 2026: the doctor says who may do more than
 * before, and its statement ends that.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { makeChanges } from "../../scripts/add/make_changes.ts";
import { makePlan } from "../../scripts/add/plan.ts";
import { readProject } from "../../scripts/add/project.ts";
import { readReceiver } from "../../scripts/add/receiver.ts";
import type { Check } from "../../scripts/doctor/check.ts";
import { checkDatabase } from "../../scripts/doctor/check_database.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { LEGACY_DEFAULT_PRIVILEGES_SQL } from "../../scripts/local_stack/roles.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import {
  migrate,
  migrateFrom,
  migrationNames,
} from "../support/migrate_part.ts";
import { readDoc, sqlBlocks } from "../support/sql_blocks.ts";
import { setting } from "../support/test_environment.ts";

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);

/** What an app has been granted on purpose. */
const APP_SQL = sqlBlocks(await readDoc("app.md"), "app.md")
  .map(({ sql }) => sql)
  .filter((sql) => /^grant select|policy "Users read/.test(sql));

async function makeDatabase(name: string, sqlBefore?: string) {
  const { url } = await createDatabase(port, { name, sqlBefore });
  const sql = postgres(url, { max: 1, onnotice() {} });
  return { url, sql, [Symbol.asyncDispose]: () => sql.end() };
}

/** A database with all migrations, and the rights of an app. */
async function makeFresh(name: string) {
  const database = await makeDatabase(name, LEGACY_DEFAULT_PRIVILEGES_SQL);
  await migrate(database.url);
  assert(APP_SQL.length >= 2);
  for (const statement of APP_SQL) {
    await database.sql.unsafe(statement).simple();
  }
  return database;
}

async function look(dbUrl: string): Promise<Record<string, Check>> {
  const checks = checkDatabase({
    dbUrl,
    projectUrl: undefined,
    secretKey: undefined,
  }, {
    here: { env: {}, migrationFiles: migrationNames() },
    tools: { fetch, clock: Date.now },
  });
  return Object.fromEntries(await Array.fromAsync(checks));
}

/** What a dump says about who may do what. */
function rightsOf(dump: readonly string[]): string[] {
  const rights = dump.filter((text) =>
    /^(grant|revoke|create policy|alter table \S+ enable row)/.test(text)
  );
  assert(rights.length > 40, rights.join("\n"));
  return rights;
}

/** The statement at the end of what a failed check says to do. */
function statementOf(check: Check | undefined): string {
  assert(check?.state === "FAIL", JSON.stringify(check));
  return /select .*;$/.exec(check.todo)?.[0] ?? "";
}

Deno.test("restored from a dump, anon may do everything until the doctor's statement is run", async () => {
  await using fresh = await makeFresh("rights_fresh");
  assertEquals((await look(fresh.url))["rights"]?.state, "ok");
  const before = await dumpSchema(fresh.sql);

  await using restored = await makeDatabase(
    "rights_restored",
    LEGACY_DEFAULT_PRIVILEGES_SQL,
  );
  await restored.sql.unsafe(before.join("\n\n"));
  await restored.sql`set search_path to default`;
  const [granted] = await restored.sql`
    select count(*) filter (where has_function_privilege('anon', oid, 'execute'))::int as functions
    from pg_proc where pronamespace = 'public'::regnamespace`;
  assert(granted?.functions > 30, `${granted?.functions} functions`);

  const { rights } = await look(restored.url);
  assert(rights?.state === "FAIL");
  const objects =
    before.filter((text) =>
      /^create (table|view|or replace function) /i.test(text)
    ).length;
  assertStringIncludes(rights.text, `${objects} objects are open to others`);
  assertStringIncludes(rights.text, "table public.failed_events (anon: ");

  await restored.sql.unsafe(statementOf(rights));
  assertEquals((await look(restored.url))["rights"]?.state, "ok");
  assertEquals(rightsOf(await dumpSchema(restored.sql)), rightsOf(before));
});

Deno.test("squashed into one file: with the revokes behind it, the rights are those of before", async () => {
  await using fresh = await makeFresh("squash_fresh");
  const before = await dumpSchema(fresh.sql);
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-app-" });
  try {
    const supabase = `${folder}/supabase`;
    const migrations = `${supabase}/migrations`;
    await Deno.mkdir(migrations, { recursive: true });
    await Deno.writeTextFile(`${supabase}/config.toml`, 'project_id = "app"\n');
    const receiver = await readReceiver();
    const add = async () => {
      const project = await readProject(folder, receiver);
      const plan = makePlan(receiver, project, { clock: Date.now });
      await makeChanges(supabase, plan.changes);
      return plan;
    };
    await add();

    // What `supabase migration squash` leaves: a dump in the last file.
    const names = [...Deno.readDirSync(migrations)].map(({ name }) => name);
    const last = names.sort().at(-1)!;
    for (const name of names) await Deno.remove(`${migrations}/${name}`);
    await Deno.writeTextFile(`${migrations}/${last}`, before.join("\n\n"));
    await Deno.writeTextFile(
      `${migrations}/20990101000000_billing_rights.sql`,
      sqlBlocks(await readDoc("add.md"), "add.md")[0]!.sql,
    );
    assertEquals((await add()).migrations.added.size, 0);

    await using rebuilt = await makeDatabase(
      "squash_rebuilt",
      LEGACY_DEFAULT_PRIVILEGES_SQL,
    );
    await migrateFrom(folder, rebuilt.url);
    assertEquals(rightsOf(await dumpSchema(rebuilt.sql)), rightsOf(before));
    const { migrations: applied, rights } = await look(rebuilt.url);
    assertEquals(rights?.state, "ok");
    assertEquals(applied?.state, "ok", applied?.text);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
