/**
 * `deno task add` as a user runs it: what it prints, its exit codes, and that it
 * writes only when it is told to, and only where git can undo it.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { makeProject, THEIRS } from "../../support/project_folder.ts";

const SNIPPET = "snippets/4_retry.sql";

/** Runs the command from another folder, as `deno task` does. */
async function add(from: string, ...args: string[]) {
  const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-check", "scripts/add.ts", ...args],
    cwd: REPOSITORY,
    env: { INIT_CWD: from, NO_COLOR: "1" },
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
      [["--check"], 1, "Not up to date, and nothing was written."],
      [["--dry-run"], 0, "add supabase/migrations/"],
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
  assertStringIncludes(said, `Done: ${path} has version `);
  assertStringIncludes(said, "supabase db push --remote\n");
  const after = await project.tree();
  // Also by its supabase folder, and whatever was asked.
  for (const args of [["supabase"], [".", "--check"], [".", "--yes"]]) {
    const { code, said } = await add(path, ...args);
    assertEquals(code, 0, said);
    assert(said.startsWith("Up to date: "), said);
  }
  assertEquals(await project.tree(), after);
});

Deno.test("add writes only into a clean git work tree, and names what is dirty", async () => {
  await using project = await makeProject();
  await project.write("../README.md", "mine");
  await project.write("functions/hello/index.ts", "mine");
  const dirty = await add(project.path, ".", "--yes");
  assertEquals(dirty.code, 1, dirty.said);
  assertStringIncludes(dirty.said, "these changes are not committed");
  assertStringIncludes(dirty.said, "?? README.md");
  assertStringIncludes(dirty.said, " M supabase/functions/hello/index.ts");
  assert(!("billing.json" in await project.tree()));
  await project.commit();
  assertEquals((await add(project.path, ".", "--yes")).code, 0);

  await using none = await makeProject();
  await Deno.remove(`${none.path}/.git`, { recursive: true });
  const { code, said } = await add(none.path, ".", "--yes");
  assertEquals(code, 1, said);
  assertStringIncludes(said, `git does not track ${none.path}/supabase`);
  assertEquals(await none.tree(), THEIRS);

  await using taken = await makeProject({ ...THEIRS, [SNIPPET]: "-- mine" });
  const blocked = await add(taken.path, ".", "--yes");
  assertEquals(blocked.code, 1, blocked.said);
  assertStringIncludes(
    blocked.said,
    `Nothing was written.\n- supabase/${SNIPPET}`,
  );
});

Deno.test("add ends with 1 if something is left to do, and does the rest", async () => {
  await using project = await makeProject({ ...THEIRS, "config.json": "{}" });
  const { code, said } = await add(project.path, ".", "--yes");
  assertEquals(code, 1, said);
  assertStringIncludes(said, "Done: ");
  assertStringIncludes(said, "Left for you:\n- supabase/config.json needs");
  const tree = await project.tree();
  assertEquals(tree["config.json"], "{}");
  assertEquals(tree["config.toml"], THEIRS["config.toml"]);
});

Deno.test("add says what is wrong with its folder or its options", async () => {
  await using project = await makeProject({ "b/c": "" });
  for (
    const [args, code, says] of [
      [[], 2, "Name the folder that holds supabase/, as in"],
      [["a", "b"], 2, "Name the folder that holds supabase/, as in"],
      [["b", "--yes", "--check"], 2, "Choose one of --yes and --check."],
      [["b", "--force"], 2, "--force"],
      [["nowhere"], 1, "has no supabase/config.toml. Name the folder"],
      [["."], 1, "has no supabase/config.toml. Name the folder"],
      [[REPOSITORY], 1, "is the receiver itself"],
    ] as const
  ) {
    const result = await add(project.path, ...args);
    assertEquals(result.code, code, result.said);
    assertStringIncludes(result.said, says);
  }
});
