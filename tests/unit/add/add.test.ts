/**
 * What a first `add` does to a project, and what stops it.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { dirname } from "node:path";
import { isUpToDate } from "../../../scripts/add/plan.ts";
import { readReceiver } from "../../../scripts/add/receiver.ts";
import { writePlan } from "../../../scripts/add/write_plan.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import {
  inState,
  makeProject,
  type ProjectFolder,
  receiver,
  THEIRS,
  type Tree,
} from "../../support/project_folder.ts";

const WEBHOOK = "functions/billing-webhook/index.ts";

/** What is in a tree and not in another. */
function without(tree: Tree, other: Tree): Tree {
  return Object.fromEntries(
    Object.entries(tree).filter(([path, text]) => other[path] !== text),
  );
}

/** Nothing may be done to the project, and this is why. */
async function assertStops(project: ProjectFolder, why: string): Promise<void> {
  const before = await project.tree();
  const error = await assertRejects(() => project.add(), Error);
  assertStringIncludes(error.message, why);
  assertEquals(await project.tree(), before);
}

Deno.test("add copies the functions, the shared folder and the snippets byte for byte, and nothing else", async () => {
  await using project = await makeProject();
  await project.add();
  const added = without(await project.tree(), THEIRS);
  const copied = Object.entries(added).filter(([path]) =>
    /^supabase\/(functions\/(billing-|_shared\/billing\/)|snippets\/)/.test(
      path,
    )
  );
  assert(copied.length > 50);
  for (const [path, text] of copied) {
    assertEquals(text, await Deno.readTextFile(`${REPOSITORY}/${path}`), path);
  }
  const others = Object.keys(added).filter((path) =>
    !copied.some(([it]) => it === path)
  );
  const migrations = others.filter((it) =>
    it.startsWith("supabase/migrations/")
  );
  assertEquals(
    migrations.map((path) => added[path]),
    receiver.migrations.map(({ text }) => text),
  );
  // So that "supabase migration new" makes the next one behind them.
  assertEquals(
    migrations.at(-1)?.replace(/_billing_.*/, ""),
    "supabase/migrations/20261122095959",
  );
  assertEquals(others.filter((it) => !migrations.includes(it)).sort(), [
    "supabase/.gitignore",
    "supabase/billing.json",
    "supabase/config.toml",
    "supabase/functions/.env.example",
  ]);
});

Deno.test("add leaves every file of the project as it was, and only appends to config.toml", async () => {
  await using project = await makeProject();
  await project.add();
  const after = await project.tree();
  const gone = without(THEIRS, after);
  assertEquals(Object.keys(gone), ["supabase/config.toml"]);
  const config = after["supabase/config.toml"]!;
  assert(config.startsWith(THEIRS["supabase/config.toml"]));
  assertStringIncludes(
    config,
    "\n[functions.billing-worker]\nverify_jwt = false\n",
  );
});

Deno.test("a clone that git checked out with CRLF adds the same", async () => {
  const clone = await Deno.makeTempDir({ prefix: "billing-webhook-clone-" });
  try {
    for await (const path of filesBelow(`${REPOSITORY}/supabase`)) {
      const target = path.replace(REPOSITORY, clone);
      await Deno.mkdir(dirname(target), { recursive: true });
      const text = await Deno.readTextFile(path);
      await Deno.writeTextFile(target, text.replaceAll("\n", "\r\n"));
    }
    assertEquals(await readReceiver(clone), receiver);
  } finally {
    await Deno.remove(clone, { recursive: true });
  }
});

async function* filesBelow(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
    if (isDirectory) yield* filesBelow(`${folder}/${name}`);
    if (isFile) yield `${folder}/${name}`;
  }
}

Deno.test("a second add changes nothing", async () => {
  await using project = await makeProject();
  assert(!isUpToDate(await project.add()));
  const before = await project.tree();
  const plan = await project.add();
  assert(isUpToDate(plan));
  assertEquals(inState(plan, "unchanged").length, receiver.files.size);
  assertEquals(await project.tree(), before);
});

Deno.test("an add that was interrupted anywhere ends the same when it is run again", async () => {
  await using straight = await makeProject();
  const { changes } = await straight.add();
  const wanted = await straight.tree();
  for (let stopAfter = 0; stopAfter < changes.length; stopAfter += 7) {
    await using project = await makeProject();
    await project.add(receiver, { stopAfter });
    await project.write("supabase/.billing-add", "export const hal");
    await project.add();
    assertEquals(await project.tree(), wanted, `after ${stopAfter} changes`);
  }
});

Deno.test("add overwrites nothing that was saved while the user was asked", async () => {
  for (
    const [path, text] of [
      ["supabase/config.toml", 'project_id = "changed"\n'],
      ["supabase/functions/.env.example", "MINE=1\n"],
      [`supabase/${WEBHOOK}`, "// mine\n"],
      ["supabase/migrations/20991231000000_mine.sql", "select 1;\n"],
    ] as const
  ) {
    await using project = await makeProject();
    const plan = await project.plan();
    await project.write(path, text);
    const before = await project.tree();
    const error = await assertRejects(
      () => writePlan(`${project.path}/supabase`, plan, () => project.plan()),
      Error,
    );
    assertStringIncludes(error.message, "the project has changed");
    assertEquals(await project.tree(), before);
  }
});

Deno.test("add writes nothing while another one does", async () => {
  await using project = await makeProject();
  const plan = await project.plan();
  const supabase = `${project.path}/supabase`;
  await writePlan(supabase, plan, async () => {
    const error = await assertRejects(
      () => writePlan(supabase, plan, () => project.plan()),
      Error,
    );
    assertStringIncludes(error.message, "another add is at work");
    return await project.plan();
  });
  assert(isUpToDate(await project.plan()));
  assert(
    !Object.keys(await project.tree()).some((it) => it.includes("billing-add")),
  );
});

Deno.test("add lists every file that is there already, and writes nothing", async () => {
  await using project = await makeProject({
    ...THEIRS,
    [`supabase/${WEBHOOK}`]: "// mine",
    "supabase/snippets/4_retry.sql": "select 'mine'",
  });
  await assertStops(
    project,
    `  supabase/${WEBHOOK}\n  supabase/snippets/4_retry.sql`,
  );
});

Deno.test("add --force replaces the one file that it names", async () => {
  await using project = await makeProject({
    ...THEIRS,
    [`supabase/${WEBHOOK}`]: "// mine",
  });
  await project.add(receiver, { decisions: { force: WEBHOOK } });
  assertEquals(
    await project.read(`supabase/${WEBHOOK}`),
    receiver.files.get(WEBHOOK),
  );
});

Deno.test("a copy that was made by hand is taken over", async () => {
  const files: Record<string, string> = { ...THEIRS };
  for (const [path, text] of receiver.files) files[`supabase/${path}`] = text;
  for (const { version, suffix, text } of receiver.migrations) {
    files[`supabase/migrations/${version}${suffix}`] = text;
  }
  await using project = await makeProject(files);
  const plan = await project.add();
  assertEquals([...plan.migrations.added], []);
  assertEquals(
    Object.keys(without(files, await project.tree())),
    ["supabase/config.toml"],
  );
  assert(isUpToDate(await project.add()));
});

Deno.test("an older copy that was made by hand is named, and nothing of it is lost", async () => {
  await using project = await makeProject({
    ...THEIRS,
    [`supabase/${WEBHOOK}`]: "// an older version",
  });
  await assertStops(project, "an older copy of the receiver");
  await Deno.remove(`${project.path}/supabase/functions/billing-webhook`, {
    recursive: true,
  });
  assert(!isUpToDate(await project.add()));
});

Deno.test("add writes through no symbolic link", async () => {
  for (
    const path of ["snippets", "migrations", "functions/_shared", "config.toml"]
  ) {
    await using elsewhere = await makeProject({ "x/y": "theirs" });
    await using project = await makeProject();
    const target = `${project.path}/supabase/${path}`;
    await Deno.remove(target, { recursive: true }).catch(() => {});
    await Deno.symlink(`${elsewhere.path}/x`, target);
    await assertStops(project, `supabase/${path} is a symbolic link`);
    assertEquals(await elsewhere.tree(), { "x/y": "theirs" });
  }
});

Deno.test("add stops at a folder in place of a file, and the other way around", async () => {
  await using folder = await makeProject({
    ...THEIRS,
    [`supabase/${WEBHOOK}/x`]: "",
  });
  await assertStops(folder, `supabase/${WEBHOOK} is not a file`);
  await using file = await makeProject({ ...THEIRS, "supabase/snippets": "" });
  await assertStops(file, "supabase/snippets is not a folder");
});

Deno.test("add keeps the modes of the files that it changes", async () => {
  await using project = await makeProject();
  const config = `${project.path}/supabase/config.toml`;
  await Deno.chmod(config, 0o600);
  await project.add();
  assertEquals((await Deno.stat(config)).mode! & 0o777, 0o600);
});

for (
  const [what, before] of [
    ["no file", undefined],
    ["an empty file", ""],
    ["settings of the project's own", "OPENAI_API_KEY=sk-...\n"],
    ["no final newline", "A=1"],
    ["CRLF", "A=1\r\nB=2\r\n"],
  ] as const
) {
  Deno.test(`add puts the settings into .env.example behind ${what}`, async () => {
    const path = "supabase/functions/.env.example";
    await using project = await makeProject({
      ...THEIRS,
      ...before === undefined ? {} : { [path]: before },
    });
    await project.add();
    const after = await project.read(path);
    assert(after.startsWith(before ?? ""));
    assertStringIncludes(after, "#PROVIDER_A_SIGNING_SECRET=whsec_...");
    assertEquals(
      after.replaceAll("\r\n", "").includes("\n"),
      !before?.includes("\r\n"),
    );
    assert(isUpToDate(await project.add()));
    assertEquals(await project.read(path), after);
  });
}

Deno.test("add keeps functions/.env out of git, unless it is ignored already", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "supabase/.gitignore": ".temp",
  });
  await project.add();
  assertEquals(
    await project.read("supabase/.gitignore"),
    ".temp\n\n# Secrets of the functions\nfunctions/.env\n",
  );

  await using ignored = await makeProject({
    ...THEIRS,
    ".gitignore": ".env\n",
  });
  await createCommand("git", {
    args: ["init", "--quiet"],
    cwd: ignored.path,
  }).output();
  assertEquals((await ignored.plan()).hidesEnv, false);
});

Deno.test("a manifest cannot make add touch what is not the receiver's", async () => {
  for (
    const path of [
      "../README.md",
      "functions/hello/index.ts",
      "functions/billing-webhook/../hello/index.ts",
      "config.toml",
    ]
  ) {
    await using project = await makeProject({
      ...THEIRS,
      "supabase/billing.json": JSON.stringify({
        version: "0.1.0",
        files: { [path]: "0" },
        migrations: {},
      }),
    });
    await assertStops(project, `${path} is not a file of the receiver`);
  }
});

Deno.test("a manifest that a merge has broken is not used", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "supabase/billing.json": "<<<<<<< HEAD\n{}",
  });
  await assertStops(project, "After a merge, keep either side");
});
