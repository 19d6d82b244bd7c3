/**
 * `deno task add` as a user runs it: what it prints, its exit codes, and that it
 * writes only when it is told to.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { makeProject, THEIRS } from "../../support/project_folder.ts";

/** Runs the command from another folder, as `deno task` does. */
async function add(cwd: string, ...args: string[]) {
  const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-check", "scripts/add.ts", ...args],
    cwd: REPOSITORY,
    env: { INIT_CWD: cwd, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code, said: decoder.decode(stdout) + decoder.decode(stderr) };
}

Deno.test("add, from nothing to up to date", async () => {
  await using project = await makeProject();
  const { path } = project;
  const before = await project.tree();
  for (
    const [args, wanted, says] of [
      [["--check"], 1, "Not up to date."],
      [["--dry-run"], 0, "Nothing was written."],
      [[], 2, "There is no terminal to ask: add --yes or --dry-run."],
    ] as const
  ) {
    const { code, said } = await add(path, ".", ...args);
    assertEquals(code, wanted, said);
    assertStringIncludes(said, says);
    assertEquals(await project.tree(), before, said);
  }
  const { code, said } = await add(path, ".", "--yes");
  assertEquals(code, 0, said);
  assertStringIncludes(said, `Done: ${await Deno.realPath(path)} has version `);
  assertStringIncludes(said, "Next: supabase db push --remote\n");
  const after = await project.tree();
  // Also by its supabase folder, and whatever was asked.
  for (const args of [["supabase"], [".", "--check"], [".", "--yes"]]) {
    const { code, said } = await add(path, ...args);
    assertEquals(code, 0, said);
    assert(said.startsWith("Up to date: "), said);
  }
  assertEquals(await project.tree(), after);
});

Deno.test("add names itself as a shell reads it", async () => {
  await using project = await makeProject();
  await Deno.mkdir(`${project.path}/my app`);
  await Deno.rename(
    `${project.path}/supabase`,
    `${project.path}/my app/supabase`,
  );
  const { said } = await add(project.path, "my app", "--check");
  assertStringIncludes(said, " add 'my app'\n");
});

Deno.test("of several adds at once, one writes and the others leave it alone", async () => {
  await using project = await makeProject();
  const ended = await Promise.all(
    Array.from({ length: 4 }, () => add(project.path, ".", "--yes")),
  );
  const done = ended.filter(({ said }) => said.includes("Done: "));
  assertEquals(done.length, 1, JSON.stringify(ended));
  const { code, said } = await add(project.path, ".", "--check");
  assertEquals(code, 0, said);
});

Deno.test("add ends with 1 if something is left to do, and does the rest", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "supabase/config.json": "{}",
  });
  const { code, said } = await add(project.path, ".", "--yes");
  assertEquals(code, 1, said);
  assertStringIncludes(said, "Put this into supabase/config.json");
  assertEquals(await project.read("supabase/config.json"), "{}");
  assertEquals(
    await project.read("supabase/config.toml"),
    THEIRS["supabase/config.toml"],
  );
  const again = await add(project.path, ".", "--check");
  assertEquals(again.code, 1, again.said);
  assertStringIncludes(again.said, "Put this into supabase/config.json");
});

Deno.test("add has the names resolved before the push if your migrations use some of its own", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "supabase/migrations/20250102000000_mine.sql":
      "create table subscriptions (id int);",
  });
  const rename =
    "Next: rename what the warning lists (docs/switch.md, step 1)\nThen: ";
  for (
    const [args, code, then] of [
      [["--check"], 1, "deno task add ."],
      [["--dry-run"], 0, "deno task add ."],
      [["--yes"], 0, "supabase db push --remote"],
    ] as const
  ) {
    const result = await add(project.path, ".", ...args);
    assertEquals(result.code, code, result.said);
    assertStringIncludes(result.said, "20250102000000_mine.sql: subscriptions");
    assertStringIncludes(result.said, `${rename}${then}`);
  }
});

Deno.test("add says what is wrong with its folder or its options", async () => {
  await using project = await makeProject({ "app/supabase/x": "", "b/c": "" });
  for (
    const [args, code, says] of [
      [[], 2, "Name the folder that holds supabase/, as in"],
      [["a", "b"], 2, "Name the folder that holds supabase/, as in"],
      [["b", "--yes", "--check"], 2, "Choose one of --yes and --check."],
      [["b", "--force"], 2, "--force needs a value"],
      [["nowhere"], 1, "there is no such folder"],
      [["b"], 1, "has no supabase folder. Name the folder that holds it."],
      [["app"], 1, 'has no config.toml. Run "supabase init" there first.'],
      [[REPOSITORY], 1, "that is the receiver itself"],
    ] as const
  ) {
    const result = await add(project.path, ...args);
    assertEquals(result.code, code, result.said);
    assertStringIncludes(result.said, says);
  }
  await using other = await makeProject();
  const { code, said } = await add(other.path, ".", "--force", "README.md");
  assertEquals(code, 2, said);
  assertStringIncludes(said, "README.md is not a file of the receiver.");
});

Deno.test("add does not follow a supabase folder that is a link", async () => {
  await using real = await makeProject();
  await using project = await makeProject({ x: "" });
  await Deno.symlink(`${real.path}/supabase`, `${project.path}/supabase`);
  const before = await real.tree();
  const { code, said } = await add(project.path, ".", "--yes");
  assertEquals(code, 1, said);
  assertStringIncludes(said, "its supabase folder is a link");
  assertEquals(await real.tree(), before);
});
