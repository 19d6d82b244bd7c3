import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { dirname } from "node:path";
import { add as addCommand } from "../../scripts/add.ts";
import { planConfig, readConfig } from "../../scripts/add/config.ts";
import { planMigrations } from "../../scripts/add/migrations.ts";
import type { Project } from "../../scripts/add/project.ts";
import { toolNotes } from "../../scripts/add/tools.ts";
import { reportEnd } from "../../scripts/common/cli.ts";
import { createCommand } from "../../scripts/common/processes.ts";
import { REPOSITORY } from "../../scripts/common/environment.ts";
import { makeProject, receiver, THEIRS } from "../support/project_folder.ts";
import { runCommand } from "../support/run_script.ts";

const WEBHOOK = "functions/billing-webhook/index.mjs";
const SNIPPET = "snippets/billing_triage.sql";
const MIGRATION = "migrations/20261122095959_billing.sql";
const OLD = "snippets/billing_old.sql";
const ACCESS = "schemas/billing_12_account.sql";
const YOURS = "schemas/billing_99_yours.sql";
const ATTRIBUTES = [...receiver.files.keys(), MIGRATION]
  .map((path) => `/${path} linguist-generated\n`).join("");
const UP_TO_DATE = { changes: [], kept: [], todo: [], notes: [], blockers: [] };

const first = {
  ...receiver,
  version: "0.9.0",
  files: new Map([...receiver.files, [WEBHOOK, "// older\n"], [OLD, ""]]),
};
const NOTE = "migrations/20271231000000_billing_second.sql";
const second = {
  ...receiver,
  version: "1.10.0",
  migrations: new Map([...receiver.migrations, [NOTE, "select 'second';\n"]]),
  schemas: new Map(
    receiver.schemas.entries().map(([path, text]) => [path, `${text}-- 2`]),
  ),
};
const HANDLERS = "create function billing.on_charge_refunded();\n";
const DECLARATIVE = { ...THEIRS, "schemas/tables.sql": "" };

Deno.test("add copies at most 8 files, and changes nothing but config.toml", async () => {
  await using project = await makeProject();
  await project.write("functions/.env", "SECRET=1");
  const { changes, ...rest } = await project.add();
  assertEquals({ changes: [], ...rest }, UP_TO_DATE);

  const { "config.toml": config, "billing.json": manifest, ...copied } =
    await project.tree();
  const { "config.toml": start, ...theirs } = THEIRS;
  assert(config?.startsWith(start));
  assertEquals(copied, {
    ...theirs,
    ...Object.fromEntries(receiver.files),
    ".gitattributes": ATTRIBUTES,
    // Dated before now: "supabase migration new" makes the next one behind it.
    [MIGRATION]: [...receiver.migrations.values()].join(),
  });

  assert(changes.filter(({ verb }) => verb === "add").length <= 8);
  // In a stable order, for git, and with tabs, for Biome.
  const names = Object.keys(JSON.parse(manifest!).files);
  assertEquals(names, names.toSorted());
  assertStringIncludes(manifest!, '\n\t"files": {\n\t\t"');
  assertEquals(await project.plan(), UP_TO_DATE);

  // A formatter may indent it in another way.
  await project.write("billing.json", manifest!.replaceAll("\t", "  "));
  assertEquals(await project.plan(), UP_TO_DATE);

  await project.remove("billing.json");
  const { changes: [lost], ...nothing } = await project.add();
  assertEquals(lost?.path, "billing.json");
  assertEquals({ ...nothing, changes: [] }, UP_TO_DATE);

  // Also if git has checked the files out with CRLF.
  for (const { path } of changes.slice(0, -1)) {
    const text = copied[path] ?? config!;
    await project.write(path, text.replaceAll("\n", "\r\n"));
  }
  assertEquals(await project.plan(), UP_TO_DATE);
});

Deno.test("the migration comes behind the project's own, and before now", () => {
  const manifest = { version: "", files: {} };
  const nowMs = Date.parse("2026-11-22T10:00:00Z");
  for (
    const [newest, gets] of [
      ["20250101000000", "20261122095959"],
      ["20261122095958", "20261122095959"],
      ["20261122095959", "20261122095960"],
      ["20309999999999", "20310000000000"],
      ["0999", "1000"],
      ["9999", ""],
    ] as const
  ) {
    const sql = new Map([[`migrations/${newest}_x.sql`, ""]]);
    const project = { sql, manifest } as Partial<Project> as Project;
    const planned = () => planMigrations(receiver, project, nowMs);
    if (gets === "") assertThrows(planned, Error, "none sorts behind 9999");
    else {
      const paths = [`migrations/${gets}_billing.sql`];
      assertEquals([...planned().added.keys()], paths);
    }
  }
});

Deno.test("after a removal, the migration is added again, behind it", async () => {
  await using project = await makeProject();
  await project.add();
  for (const path of ["billing.json", ".gitattributes"]) {
    await project.remove(path);
  }
  const removal = "migrations/20261122100001_billing_remove.sql";
  await project.write(removal, "drop schema billing cascade;\n");
  // What it was in an earlier version.
  await project.write(MIGRATION, "create schema billing;\n");

  const again = "migrations/20261122100002_billing.sql";
  const { changes, ...rest } = await project.add();
  assertEquals({ ...rest, changes: [] }, UP_TO_DATE);
  const paths = changes.map(({ path }) => path);
  assertEquals(paths, [".gitattributes", again, "billing.json"]);
  assertEquals(await project.plan(), UP_TO_DATE);
});

Deno.test("an update replaces unchanged files, and adds new migrations", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "config.toml": "\ufeffa = 1\n",
  });
  const added = (await project.add(first)).changes;
  const config = added.find(({ path }) => path === "config.toml");
  assert(config?.text?.startsWith("\ufeffa = 1\n"));
  // Handlers, in a file with a name such as ours.
  const own = "migrations/20270101000000_billing_handlers.sql";
  await project.write(own, HANDLERS);
  await project.write(MIGRATION, "-- mine\n");

  const { changes, kept } = await project.add(second);
  assertEquals(kept, [MIGRATION]);
  assertEquals(changes.map(({ verb, path }) => `${verb} ${path}`), [
    `change ${WEBHOOK}`,
    "change .gitattributes",
    `remove ${OLD}`,
    "add migrations/20270101000001_billing_second.sql",
    "change billing.json",
  ]);
  const after = await project.tree();
  assertEquals([after[MIGRATION], after[own]], ["-- mine\n", HANDLERS]);
  assert(!(OLD in after));

  // An older clone does not take it back.
  for (const version of ["0.9.0", "1.9.0"]) {
    const { blockers } = await project.add({ ...receiver, version });
    assert(blockers.join().includes("Run add from a newer clone"));
  }
  // Squashed migrations do not come back, and others do not get lost.
  await project.remove(MIGRATION);
  const { todo } = await project.plan(second);
  assert(todo.join().startsWith(`supabase/${MIGRATION} is gone`), todo.join());
  const squash = 'CREATE TABLE IF NOT EXISTS "billing"."subscriptions" ();\n';
  await project.write(own, squash);
  assertEquals(await project.plan(second), UP_TO_DATE);
});

Deno.test("a changed file is kept, and named each time", async () => {
  await using project = await makeProject();
  await project.add(first);
  for (const path of [WEBHOOK, SNIPPET, OLD]) await project.write(path, "mine");

  const { kept } = await project.add();
  assertEquals(kept.toSorted(), [WEBHOOK, OLD, SNIPPET]);
  const { [WEBHOOK]: a, [SNIPPET]: b, [OLD]: c } = await project.tree();
  assertEquals([a, b, c], ["mine", "mine", "mine"]);
  // This version does not have the old one.
  const again = await project.plan();
  assertEquals([again.kept.toSorted(), again.changes], [
    [WEBHOOK, SNIPPET],
    [],
  ]);

  // Deleted, it is this version's again.
  await project.remove(WEBHOOK);
  assertEquals((await project.add()).kept, [SNIPPET]);
  assertEquals((await project.tree())[WEBHOOK], receiver.files.get(WEBHOOK));
});

Deno.test("a .gitattributes of the user's own stays, with a note", async () => {
  await using project = await makeProject();
  await project.add();
  const ours = ATTRIBUTES;
  const [line, ...more] = ours.trimEnd().split("\n");

  // The first one was written by add, and then changed.
  for (
    const [text, lacking] of [[`* text\n${ours}`, []], [line!, more]] as const
  ) {
    await project.write(".gitattributes", text);
    await project.add();
    assertEquals((await project.tree())[".gitattributes"], text);
    const { notes, ...rest } = await project.plan();
    assertEquals({ ...rest, notes: [] }, UP_TO_DATE);
    assertEquals(notes.join().split("\n  ").slice(1), lacking);
  }
});

Deno.test("only a project with declarative schemas gets the schema files", async () => {
  const path =
    '[experimental.pgdelta]\ndeclarative_schema_path = "./database/"\n';
  for (
    const [files, folder] of [
      [DECLARATIVE, "schemas"],
      [{ "config.toml": path, "database/a/b.sql": "" }, "database"],
      [{ "config.toml": path, "schemas/b.sql": "" }, undefined],
      [{ ...THEIRS, "schemas/README.md": "" }, undefined],
    ] as const
  ) {
    await using project = await makeProject(files);
    const { changes } = await project.plan();
    assert(changes.length <= 1 + 24); // config.toml is theirs.
    const paths = changes.map(({ path }) => path);
    const ours = folder ? [...receiver.schemas.keys()] : [];
    assertEquals(
      paths.filter((path) => /\/billing_\d\d_/.test(path)),
      ours.map((path) => path.replace("schemas", folder!)),
    );
  }
});

Deno.test("the user's functions are written once; an export replaces schema files", async () => {
  await using project = await makeProject(DECLARATIVE);

  await project.add();
  const ours = receiver.schemas.get(YOURS)!;
  const next = { ...second, migrations: receiver.migrations };
  for (const text of [ours, "-- mine\n"]) {
    assertEquals((await project.tree())[YOURS], ours);
    await project.write(YOURS, text);
    const { kept, todo } = await project.add(next);
    assertEquals([kept, todo], [[], []]);
    const tree = await project.tree();
    assertEquals(tree[YOURS], text);
    assertEquals(tree[ACCESS], second.schemas.get(ACCESS));
  }
  assertEquals(await project.plan(next), UP_TO_DATE);

  const text = "CREATE TABLE billing.subscriptions";
  await project.write("schemas/billing.sql", text);
  const { changes, kept, todo } = await project.add(second);
  assertEquals(kept, []);
  const removed = changes.filter(({ verb }) => verb === "remove");
  assertEquals(removed.length, receiver.schemas.size - 1);
  assert(todo.join().includes("export them again after the push"), todo.join());
});

const OBSTACLES = [
  ["functions", "link", "functions is a link to "],
  [WEBHOOK, "link", `${WEBHOOK} is a link to `],
  ["billing.json", "link", "billing.json is a link to /nowhere, and noth"],
  ["config.toml", "link", "config.toml is a link to "],
  ["migrations", "file", "migrations is not a folder"],
  [WEBHOOK, "folder", `${WEBHOOK} is not a file`],
  ["functions/.git", "file", "functions is a git repository of its own"],
] as const;

Deno.test("add writes through no link, and into no other repository", async () => {
  for (const [place, kind, says] of OBSTACLES) {
    await using project = await makeProject(DECLARATIVE);
    const path = `${project.path}/supabase/${place}`;
    // Also if the link leads to a place in the project, or nowhere.
    const moved = `${project.path}/moved`;
    if (kind === "link") {
      const isThere = await Deno.rename(path, moved).then(
        () => true,
        () => false,
      );
      await Deno.mkdir(dirname(path), { recursive: true });
      await Deno.symlink(isThere ? moved : "/nowhere", path);
    } else {
      await Deno.remove(path, { recursive: true }).catch(() => {});
      await project.write(kind === "file" ? place : `${place}/x`, "");
    }

    const { blockers } = await project.plan();
    const said = blockers.find((line) => line.startsWith(`supabase/${says}`));
    assert(said, `${place}: ${blockers.join("\n")}`);
  }
});

Deno.test("add overlooks no declarative schemas behind a link", async () => {
  const nested = 'experimental.pgdelta.declarative_schema_path = "db/all"';
  for (
    const [link, config, written] of [
      ["schemas", "a = 1"],
      ["schemas/tables", "a = 1", ACCESS],
      ["db", nested],
      ["db/all", nested],
      ["db/all/tables", nested, "db/all/billing_12_account.sql"],
    ] as const
  ) {
    const sql = { "../sql/a.sql": "", "../sql/all/a.sql": "" };
    await using project = await makeProject({ "config.toml": config, ...sql });
    const place = `${project.path}/supabase/${link}`;
    await Deno.mkdir(dirname(place), { recursive: true });
    await Deno.symlink(`${project.path}/sql`, place);

    const { blockers } = await project.add();
    const says = `supabase/${link} is a link to ${project.path}/sql, and`;
    const isRefused = blockers.some((it) => it.startsWith(says));
    assertEquals(isRefused, written === undefined, `${link}: ${blockers}`);
    assert((written ?? "config.toml") in await project.tree());
    assertEquals(MIGRATION in await project.tree(), written !== undefined);
  }
});

Deno.test("add changes no file that has a second name, and keeps its mode", async () => {
  await using project = await makeProject();
  const [config, other] = ["supabase/config.toml", "other.toml"]
    .map((name) => `${project.path}/${name}`) as [string, string];
  await Deno.link(config, other);
  await Deno.chmod(config, 0o750);
  await project.add();
  assertEquals(await Deno.readTextFile(other), THEIRS["config.toml"]);
  assertEquals(((await Deno.stat(config)).mode ?? 0) & 0o777, 0o750);
});

Deno.test("declarative schemas outside of supabase/ are left to the user", async () => {
  for (const folder of ["../database", "./schemas/../../database"]) {
    const text = `experimental.pgdelta.declarative_schema_path = "${folder}"`;
    const files = { "config.toml": text, "../database/a.sql": "" };
    await using project = await makeProject(files);
    await Deno.symlink("/nowhere", `${project.path}/database/tables`);
    const { todo, changes, blockers } = await project.add();
    assertEquals(blockers, []);
    assert(todo.join().includes("Copy the receiver's there: /"), todo.join());
    assert(changes.every(({ path }) => !path.includes("..")));

    for (const [path, text] of receiver.schemas) {
      await project.write(path.replace("schemas", "../database"), text);
    }
    assertEquals(await project.plan(), UP_TO_DATE);
  }
});

const TAKEN = {
  "create table billing_subscriptions ();": "public.billing_subscriptions",
  'CREATE VIEW "public"."billing_health" AS x;': "public.billing_health",
  "create or replace function public.billing_has_access()":
    "public.billing_has_access",
  "create schema if not exists billing;": "schema billing",
  'create function "billing" .on_x()': "schema billing",
  "create table subscriptions (); create table public.notifications ();": "",
  "-- create schema billing;\ncreate schema billing_app;": "",
};

Deno.test("add says which names the project's own migrations take", async () => {
  // It has the receiver's file name.
  const own = "migrations/20250102000000_billing.sql";
  for (const [sql, name] of Object.entries(TAKEN)) {
    await using project = await makeProject({ ...THEIRS, [own]: sql });
    const { todo } = await project.add();

    const taken = todo.map((text) => text.split(", a name of")[0]!);
    assertEquals(taken, name ? [`supabase/${own} creates ${name}`] : []);
    assert(MIGRATION in await project.tree());
    // From then on, the database has been asked.
    assertEquals(await project.plan(), UP_TO_DATE);
  }
});

Deno.test("add uses no manifest that it has not written", async () => {
  for (
    const text of [
      "<<<<<<< HEAD\n{}",
      "{}",
      '{ "version": "0.1.0", "files": { "functions/hello/index.ts": "0" } }',
      '{ "version": "0.1.0", "files": { "snippets/../config.toml": "0" } }',
    ]
  ) {
    const files = { ...THEIRS, "billing.json": text };
    await using project = await makeProject(files);
    await assertRejects(() => project.add(), Error, "not what add has written");
  }
});

const BOTH = `\
[functions.billing-webhook]
# Its callers have no JWT: it checks their signature.
entrypoint = "./functions/billing-webhook/index.mjs"
verify_jwt = false

[functions.billing-worker]
# Its caller has no JWT: it checks for a secret key.
entrypoint = "./functions/billing-worker/index.mjs"
verify_jwt = false
`;
const ENTRY = '"./functions/billing-webhook/index.mjs"';
const OPEN = BOTH.replace("false", "true");
const REMOTE = BOTH + OPEN.replaceAll("[functions", "[remotes.live.functions")
  .replaceAll(/^entrypoint.*\n/gm, "");

Deno.test("add appends its sections to config.toml", () => {
  for (
    const [before, gap] of [
      ["", ""],
      ["a = 1", "\n\n"],
      ["at = 1979-05-27T07:32:00Z\n", "\n"],
      ["\ufeffa = 1\n", "\n"],
      ["# [functions.billing-webhook]\n\n", "\n"],
      ["a = 1\r\n", "\r\n"],
    ] as const
  ) {
    const sections = BOTH.replaceAll("\n", gap === "\r\n" ? gap : "\n");
    const plan = planConfig(readConfig("config.toml", before));
    assertEquals(plan, { text: before + gap + sections, todo: [] });
  }
});

const MISSING = `supabase/config.toml needs\n\n${BOTH}`;
const LEFT = [
  [BOTH, ""],
  [BOTH.replaceAll("[functions.b", "[ functions . b"), ""],
  [OPEN, "In supabase/config.toml, [functions.billing-webhook] needs verify"],
  [BOTH.replace(ENTRY, '"a.ts"'), `-webhook] needs entrypoint = ${ENTRY}.`],
  [REMOTE, "[remotes.live.functions.billing-webhook] needs verify_jwt = fa"],
  [`db.migrations.enabled = false\n${BOTH}`, "[db.migrations] needs enabled"],
  ["functions = { hello = { } }\n", MISSING],
  ["a = \n", MISSING],
] as const;

Deno.test("add leaves sections as they are, and says what they lack", () => {
  for (const [text, left] of LEFT) {
    const plan = planConfig(readConfig("config.toml", text));
    assertEquals([plan.text, plan.todo.length], [undefined, left ? 1 : 0]);
    assert(plan.todo.join().includes(left), plan.todo.join());
  }
});

const FUNCTIONS = "supabase/functions/billing-{webhook,worker}/**";
const TOOLS = [
  ["package.json", '"prettier": "3"', "supabase/**/billing[.-][jw]*"],
  ["deno.jsonc", '"npm:@supabase/ssr"', "supabase/billing.json"],
  ["eslint.config.mjs", "projectService: true", FUNCTIONS],
] as const;

Deno.test("add says which line a tool of the repository needs", async () => {
  await using project = await makeProject({
    "../apps/shop/supabase/config.toml": "",
    "../deno.json": '"useTabs": true',
    "../eslint.config.mjs": "nextVitals",
  });
  await project.commit();
  const shop = `${project.path}/apps/shop`;
  assertEquals(await toolNotes(shop), []);
  await project.remove("../deno.json");

  for (const [file, text] of TOOLS) await project.write(`../${file}`, text);
  const notes = await toolNotes(shop);
  const lines = TOOLS.map(([, , line]) =>
    line.replace("supabase", "apps/shop/supabase")
  );
  assertEquals(notes.map((note) => note.split("\n  ")[1]), lines);

  for (const [index, [file]] of TOOLS.entries()) {
    const place = file.replace("package.json", ".prettierignore");
    await project.write(`../${place}`, `"${lines[index]}"`);
  }
  assertEquals(await toolNotes(shop), []);
});

Deno.test("Deno's tools accept what add writes, after the line for them", async () => {
  await using project = await makeProject();
  await project.add();
  const exclude = ["supabase/billing.json"];
  const settings = { compilerOptions: { checkJs: true }, exclude };
  await project.write("../deno.json", JSON.stringify(settings));
  for (const line of ["fmt --check supabase", "lint", "check supabase"]) {
    const options = { args: line.split(" "), cwd: project.path };
    const { success, stderr } = await createCommand(Deno.execPath(), options)
      .output();
    assert(success, new TextDecoder().decode(stderr));
  }
});

/** Runs `add` from another folder, as `deno task` does; here it has no terminal. */
async function add(from: string, line: string, exit: number, says: string[]) {
  const { log, error } = console;
  let output = "";
  const say = (text: string) => output += `${text}\n`;
  Deno.env.set("INIT_CWD", from);
  Object.assign(console, { log: say, error: say });
  const code = await addCommand(line.split(" "))
    .catch((error) => reportEnd(error)).finally(() => {
      Object.assign(console, { log, error });
      Deno.env.delete("INIT_CWD");
    });

  assertEquals(code, exit, output);
  for (const text of says) assertStringIncludes(output, text);
  return output;
}

Deno.test("add, from nothing to up to date, where git can undo it", async () => {
  await using project = await makeProject();
  const { path } = project;
  await project.commit();
  const before = await project.tree();
  await add(path, ". --check", 1, ["Not up to date, and nothing was written."]);
  await add(path, ". --dry-run", 0, ["add supabase/migrations"]);
  await add(path, ".", 2, ["There is no terminal to ask: add --yes or --dry-"]);
  assertEquals(await project.tree(), before);

  // Not where git cannot undo it: files that are changed or ignored.
  await project.write("../billing-webhook-receiver-1.0.0.tgz", "not yet ours");
  await project.write("functions/hello/index.ts", "mine");
  await project.write("../README.md", "mine");
  const dirty = ["?? README.md", " M supabase/functions/hello"];
  await add(path, ". --yes", 1, dirty);
  await project.write("../.gitignore", "*.mjs\nconfig.toml\n");
  const ignored = ["- git ignores these files.", `\nsupabase/${WEBHOOK}\n`];
  await add(path, ". --dry-run", 1, ignored);
  await project.write("../.gitignore", "config.toml\n"); // It is tracked.
  await project.write("../.prettierrc", "");
  const note = "For the tools of this project:\n- Prettier: add this line";
  await add(path, ". --dry-run", 0, ["change supabase/config.toml", note]);
  assert(!("billing.json" in await project.tree()));
  await project.commit();

  const first = "The push creates nothing if your database has a schema";
  const done = await add(path, ". --yes", 0, [
    `Done: ${path} has`,
    first,
    note,
  ]);
  assert(done.endsWith("deploy billing-worker --use-api\n"), done);
  const after = await project.tree();
  // Also by its supabase folder.
  for (const line of ["supabase --check", ". --yes"]) {
    await add(path, line, 0, ["Up to date: "]);
  }
  assertEquals(await project.tree(), after);

  await project.write(WEBHOOK, "mine");
  for (const mode of ["--check", "--dry-run", "--yes"]) {
    await add(path, `. ${mode}`, 1, [`  keep supabase/${WEBHOOK}, which`]);
  }
  await project.remove(WEBHOOK);
  await project.commit();
  const updated = await add(path, ". --yes", 0, ["db push --remote\n"]);
  assert(!updated.includes(first), updated);
  await Deno.remove(`${path}/.git`, { recursive: true });
  await project.remove(SNIPPET);
  await add(path, ". --yes", 1, [`git does not track ${path}/supabase`]);
});

Deno.test("add ends with 1 if something is left, and refuses other folders", async () => {
  await using project = await makeProject({ ...THEIRS, "config.json": "{}" });
  await project.commit();
  const left = "Left for you:\n- supabase/config.json needs";
  await add(project.path, ". --yes", 1, ["Done: ", left]);

  await project.remove("billing.json");
  await project.write(WEBHOOK, "mine");
  const taken = "Nothing was written.\n- supabase/functions/billing-webhook/";
  await add(project.path, ". --yes", 1, [taken]);

  await add("/", ". --yes --check", 2, ["Choose one of --yes and --check."]);
  await add("/", "nowhere", 1, [
    "has no supabase/config.toml. Name the folder",
  ]);
  await add("/", REPOSITORY, 1, ["is the receiver itself"]);
});

Deno.test("add asks git about the project's folder, however git is set", async () => {
  await using project = await makeProject();
  const { path } = project;
  await project.write("../apps/shop/supabase/config.toml", "");
  await project.commit();
  const git = (...args: string[]) =>
    createCommand("git", { args, cwd: path }).output();
  await git("config", "status.showUntrackedFiles", "no");

  // Of another package; then the project's own.
  await project.write("../packages/mail.ts", "");
  await project.write('../apps/shop/src/"ä"\n.ts', "");
  const dirty = "stash them first.\n?? src/\n";
  await add(path, "apps/shop --yes", 1, [dirty]);
  await project.write("../apps/shop/src/a.ts", "");
  await git("add", "apps");
  await add(path, "apps/shop --yes", 1, [
    'first.\nA  src/"ä"\\u000a.ts\nA  src/a.ts\n',
  ]);
  await git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "a");

  // In a hook, git names the hook's repository.
  Deno.env.set("GIT_DIR", "/nowhere");
  using _ = { [Symbol.dispose]: () => Deno.env.delete("GIT_DIR") };
  await Deno.symlink("shop", `${path}/apps/link`);
  await add(path, "apps/link --yes", 0, [`Done: ${path}/apps/shop has`]);

  const none = await runCommand("add", [path, "--yes"], { PATH: "/nowhere" });
  assertStringIncludes(none.err, "undo changes.\ngit is not installed.\n");
  const owned = await runCommand("add", [path, "--yes"], {
    GIT_TEST_ASSUME_DIFFERENT_OWNER: "1",
  });
  assertStringIncludes(owned.err, "\n  git config --global --add safe.direct");
});

Deno.test("add writes nothing if supabase is a link, and ends with 1", async () => {
  await using outside = await makeProject({});
  await using project = await makeProject();
  const { path } = project;
  await Deno.rename(`${path}/supabase`, `${outside.path}/supabase`);
  await Deno.symlink(`${outside.path}/supabase`, `${path}/supabase`);
  await project.commit();
  for (const line of [". --yes", "supabase --yes"]) {
    await add(path, line, 1, [
      "Nothing was written.\n- supabase is a link to",
    ]);
  }
});
