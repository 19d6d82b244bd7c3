/**
 * What `add` does to a project: what it copies, what it keeps, and what stops it.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import {
  makeProject,
  type ProjectFolder,
  receiver,
  THEIRS,
  type Tree,
} from "../../support/project_folder.ts";

const WEBHOOK = "functions/billing-webhook/index.ts";
const SNIPPET = "snippets/4_retry.sql";
const MIGRATION = "migrations/20261122095959_billing.sql";
const OLD = "functions/billing-worker/old.ts";
const YOURS = "schemas/billing_8_yours.sql";

/** A first release, and the second one, which adds a migration. */
const first = {
  ...receiver,
  version: "0.9.0",
  files: new Map([...receiver.files, [WEBHOOK, "// older\n"], [OLD, ""]]),
};
const SECOND_SQL = "alter table billing.subscriptions add note text;\n";
const second = {
  ...receiver,
  version: "1.10.0",
  migrations: new Map([
    ...receiver.migrations,
    ["_billing_note.sql", SECOND_SQL],
  ]),
  schemas: new Map(
    Array.from(receiver.schemas, ([name, text]) => [name, `${text}-- 2\n`]),
  ),
};

const DECLARATIVE = {
  ...THEIRS,
  "schemas/tables.sql": "create table public.subscriptions (id text);\n",
};

/** What is in a tree and not in another. */
function without(tree: Tree, other: Tree): Tree {
  return Object.fromEntries(
    Object.entries(tree).filter(([path, text]) => other[path] !== text),
  );
}

async function assertUpToDate(
  project: ProjectFolder,
  version = receiver,
): Promise<void> {
  assertEquals(await project.plan(version), {
    changes: [],
    kept: [],
    todo: [],
    blockers: [],
  });
}

Deno.test("add copies functions, snippets and one migration byte for byte, and changes nothing but config.toml", async () => {
  await using project = await makeProject();
  const plan = await project.add();
  assertEquals([plan.todo, plan.kept, plan.blockers], [[], [], []]);
  const after = await project.tree();
  const { "config.toml": config, "billing.json": manifest, ...copied } =
    without(after, THEIRS);
  assert(Object.keys(copied).length > 40);
  for (const [path, text] of Object.entries(copied)) {
    const name = path === MIGRATION
      ? "migrations/20261125000000_billing.sql"
      : path;
    assertEquals(
      text,
      await Deno.readTextFile(`${REPOSITORY}/supabase/${name}`),
    );
  }
  for (const name of ["billing-webhook", "billing-worker"]) {
    assert(`functions/${name}/deno.json` in copied);
    assert(`functions/${name}/deno.lock` in copied);
  }
  // So that "supabase migration new" makes the next one behind it.
  assertEquals(
    Object.keys(copied).filter((path) => path.startsWith("migrations/")),
    [MIGRATION],
  );
  assertEquals(Object.keys(copied).filter((it) => it.endsWith(".env")), []);
  assert(config?.startsWith(THEIRS["config.toml"]));
  assert(manifest);
  assertEquals(Object.keys(without(THEIRS, after)), ["config.toml"]);
  await assertUpToDate(project);
});

for (
  const [newest, gets] of [
    ["20250101000000", "20261122095959"],
    ["20261122095958", "20261122095959"],
    ["20261122095959", "20261122100000"],
    ["20301231235959", "20310101000000"],
    ["20309999999999", "20310000000000"],
    ["0007", "0008"],
    ["0999", "1000"],
  ] as const
) {
  Deno.test(`behind ${newest}, the migration gets the version ${gets}`, async () => {
    await using project = await makeProject({
      "config.toml": "",
      [`migrations/${newest}_x.sql`]: "",
    });
    const { changes } = await project.plan();
    assertEquals(
      changes.map(({ path }) => path).filter((it) => it.includes("migrations")),
      [`migrations/${gets}_billing.sql`],
    );
  });
}

Deno.test("an update replaces what the project has not changed, and adds the migration of the second release", async () => {
  await using project = await makeProject();
  await project.add(first);
  const older = await project.tree();
  await project.write("migrations/20270101000000_theirs.sql", "select 2;\n");
  await project.write(MIGRATION, `${older[MIGRATION]}-- mine\n`);
  const { changes, kept, todo } = await project.add(second);
  assertEquals(changes.map(({ verb, path }) => `${verb} ${path}`), [
    `change ${WEBHOOK}`,
    `remove ${OLD}`,
    "add migrations/20270101000001_billing_note.sql",
    "change billing.json",
  ]);
  assertEquals([kept, todo], [[], []]);
  const after = await project.tree();
  assertEquals(
    after["migrations/20270101000001_billing_note.sql"],
    SECOND_SQL,
  );
  assertEquals(after[MIGRATION], `${older[MIGRATION]}-- mine\n`);
  assert(!(OLD in after));
  await assertUpToDate(project, second);

  // An older clone does not take it back.
  for (const version of [first, receiver]) {
    const { blockers } = await project.add(version);
    assertStringIncludes(blockers.join(), "Run add from a newer clone");
  }
  assertEquals(await project.tree(), after);
});

Deno.test("a file that the project has changed is kept; what is new in it is left to do, once", async () => {
  await using project = await makeProject();
  await project.add(first);
  await project.write(WEBHOOK, "// mine\n");
  await project.write(SNIPPET, "-- mine\n");
  await project.write(OLD, "// mine\n");
  const { kept, todo } = await project.add();
  assertEquals(kept.toSorted(), [WEBHOOK, OLD, SNIPPET]);
  assertEquals(todo.length, 2);
  assertStringIncludes(todo[0]!, `changed supabase/${WEBHOOK}, and this`);
  assertStringIncludes(todo[1]!, `changed supabase/${OLD}, which this version`);
  const tree = await project.tree();
  assertEquals(
    [tree[WEBHOOK], tree[SNIPPET], tree[OLD]],
    ["// mine\n", "-- mine\n", "// mine\n"],
  );
  const again = await project.plan();
  assertEquals([again.changes, again.todo], [[], []]);
  assertEquals(again.kept, [WEBHOOK, SNIPPET]);

  // Deleted, it is this version's again.
  await project.remove(WEBHOOK);
  assertEquals((await project.add()).kept, [SNIPPET]);
  assertEquals((await project.tree())[WEBHOOK], receiver.files.get(WEBHOOK));
});

Deno.test("files that git has checked out with CRLF count as unchanged", async () => {
  await using project = await makeProject();
  await project.add();
  for (const [path, text] of Object.entries(await project.tree())) {
    if (path === "billing.json") continue;
    await project.write(path, text.replaceAll("\n", "\r\n"));
  }
  await assertUpToDate(project);
});

Deno.test("files that add did not put there stop it, all of them named", async () => {
  const files = { ...THEIRS, [WEBHOOK]: "// mine", [SNIPPET]: "-- mine" };
  await using project = await makeProject(files);
  const { blockers } = await project.add();
  assertEquals(blockers.length, 2);
  assertStringIncludes(blockers[0]!, `supabase/${WEBHOOK} is there already`);
  assertStringIncludes(blockers[1]!, `supabase/${SNIPPET} is there already`);
  assertEquals(await project.tree(), files);
});

Deno.test("only a project with declarative schemas gets the schema files, where its CLI reads them", async () => {
  const path =
    '[experimental.pgdelta]\ndeclarative_schema_path = "./database"\n';
  const list = 'db.migrations.schema_paths = ["./tables.sql"]\n';
  const off = "experimental.pgdelta.enabled = false\n";
  for (
    const [files, folder, left] of [
      [DECLARATIVE, "schemas", 0],
      [{ "config.toml": path, "database/a/b.sql": "" }, "database", 0],
      [{ "config.toml": path, "schemas/b.sql": "" }, undefined, 0],
      [{ "config.toml": list }, undefined, 0],
      [{ "config.toml": list + off }, "schemas", 1],
      [{ ...THEIRS, "schemas/README.md": "" }, undefined, 0],
    ] as const
  ) {
    await using project = await makeProject(files);
    const { changes, todo } = await project.plan();
    const schemas = changes.filter(({ path }) => /\/billing_\d_/.test(path));
    assertEquals(
      schemas.map(({ path, text }) => [path, text]),
      folder === undefined ? [] : Array.from(
        receiver.schemas,
        ([name, text]) => [`${folder}/${name}`, text],
      ),
    );
    assertEquals(todo.length, left, todo.join());
  }
});

Deno.test("the file with the project's own functions is written once and never again", async () => {
  await using project = await makeProject(DECLARATIVE);
  await project.add();
  const ours = receiver.schemas.get("billing_8_yours.sql");
  assertEquals((await project.tree())[YOURS], ours);
  for (const text of [ours!, "-- mine\n"]) {
    await project.write(YOURS, text);
    const { kept, todo } = await project.add(second);
    assertEquals([kept, todo], [[], []]);
    const tree = await project.tree();
    assertEquals(tree[YOURS], text);
    assertEquals(
      tree["schemas/billing_7_access.sql"],
      second.schemas.get("billing_7_access.sql"),
    );
  }
  await assertUpToDate(project, second);
});

Deno.test("a project whose own export has the receiver's tables has them once", async () => {
  await using project = await makeProject(DECLARATIVE);
  await project.add();
  await project.write(
    "schemas/schemas/billing/tables/subscriptions.sql",
    "CREATE TABLE billing.subscriptions (id text);\n",
  );
  const { changes } = await project.add();
  assertEquals(
    changes.map(({ verb, path }) => `${verb} ${path}`),
    [
      ...Array.from(receiver.schemas.keys(), (it) => `remove schemas/${it}`),
      "change billing.json",
    ],
  );
  assertStringIncludes((await project.add(second)).todo.join(), "export them");
});

for (
  const [name, text] of [
    ["public.billing_subscriptions", "create table billing_subscriptions ();"],
    ["public.billing_health", 'CREATE VIEW "public"."billing_health" AS x;'],
    [
      "public.billing_has_access",
      "create or replace function public.billing_has_access() returns bool;",
    ],
    ["schema billing", "create schema if not exists billing;"],
  ] as const
) {
  Deno.test(`add says that ${name} is taken`, async () => {
    const path = "migrations/20250102000000_mine.sql";
    await using project = await makeProject({ ...THEIRS, [path]: text });
    const { todo } = await project.add();
    assertEquals(todo.length, 1);
    assertStringIncludes(todo[0]!, `supabase/${path} creates ${name}, a name`);
    // From then on, the database has been asked.
    await assertUpToDate(project);
  });
}

Deno.test("tables of the receiver's names in schema public, and other names, are the project's", async () => {
  const sql =
    `create table subscriptions (); create table public.notifications ();
    -- create schema billing;
    create table billing_addresses (); create schema billing_app;`;
  await using project = await makeProject({
    ...THEIRS,
    "migrations/20250102000000_mine.sql": sql,
  });
  assertEquals((await project.plan()).todo, []);
});

Deno.test("a migration of the project's own may be named as the receiver's, and squashed ones do not come back", async () => {
  const own = "migrations/20250102000000_billing.sql";
  await using project = await makeProject({ ...THEIRS, [own]: "select 2;" });
  await project.add();
  assert(MIGRATION in await project.tree());
  await assertUpToDate(project);
  await project.remove(MIGRATION);
  await project.write("migrations/20261201000000_squashed.sql", "--");
  await assertUpToDate(project);
  const { changes } = await project.add(second);
  assertEquals(
    changes.map(({ path }) => path).filter((it) => it.includes("migrations")),
    ["migrations/20261201000001_billing_note.sql"],
  );
});

for (
  const text of [
    "<<<<<<< HEAD\n{}",
    "{}",
    '{ "version": "0.1.0", "files": { "functions/hello/index.ts": "0" } }',
    '{ "version": "0.1.0", "files": { "snippets/../config.toml": "0" } }',
  ]
) {
  Deno.test(`add does not use the manifest ${JSON.stringify(text)}`, async () => {
    await using project = await makeProject({
      ...THEIRS,
      "billing.json": text,
    });
    const error = await project.add().catch((error) => error);
    assertStringIncludes(error.message, "it is not what add has written");
  });
}
