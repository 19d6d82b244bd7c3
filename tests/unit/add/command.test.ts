/** `deno task add` as a user runs it: what it prints, and its exit codes. */
import { assert, assertEquals } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { makeProject, THEIRS } from "../../support/project_folder.ts";

const SNIPPET = "snippets/4_retry.sql";

/** Runs the command from another folder, as `deno task` does. */
async function add(
  from: string,
  line: string,
  code: number,
  ...says: string[]
) {
  const command = "run -A --quiet --no-check scripts/add.ts " + line;
  const output = await createCommand(Deno.execPath(), {
    args: command.trim().split(" "),
    cwd: REPOSITORY,
    env: { INIT_CWD: from, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  const said = decoder.decode(output.stdout) + decoder.decode(output.stderr);
  assertEquals(output.code, code, said);
  for (const text of says) assert(said.includes(text), said);
}

Deno.test("add, from nothing to up to date, where git can undo it", async () => {
  await using project = await makeProject();
  const { path } = project;
  const before = await project.tree();
  await add(path, ". --check", 1, "Not up to date, and nothing was written.");
  await add(path, ". --dry-run", 0, "add supabase/migrations/");
  await add(path, ".", 2, "There is no terminal to ask: add --yes or --dry-");
  assertEquals(await project.tree(), before);
  await project.write("functions/hello/index.ts", "mine");
  await project.write("../README.md", "mine");
  await add(path, ". --yes", 1, "?? README.md", " M supabase/functions/hello");
  assert(!("billing.json" in await project.tree()));
  await project.commit();
  await add(path, ". --yes", 0, `Done: ${path} has`, "db push --remote\n");
  const after = await project.tree();
  // Also by its supabase folder, and whatever was asked.
  await add(path, "supabase", 0, "Up to date: ");
  await add(path, ". --check", 0, "Up to date: ");
  await add(path, ". --yes", 0, "Up to date: ");
  assertEquals(await project.tree(), after);
  await Deno.remove(`${path}/.git`, { recursive: true });
  await project.remove(SNIPPET);
  await add(path, ". --yes", 1, `git does not track ${path}/supabase`);
});

Deno.test("add ends with 1 if something is left to do, or nothing can be done", async () => {
  await using project = await makeProject({ ...THEIRS, "config.json": "{}" });
  await add(
    project.path,
    ". --yes",
    1,
    "Done: ",
    "Left for you:\n- supabase/config.json needs",
  );
  const tree = await project.tree();
  assertEquals(tree["config.json"], "{}");
  assertEquals(tree["config.toml"], THEIRS["config.toml"]);
  await project.write(SNIPPET, "mine");
  await project.remove("billing.json");
  await add(
    project.path,
    ". --yes",
    1,
    `Nothing was written.\n- supabase/${SNIPPET}`,
  );
});

for (
  const [line, code, says] of [
    ["", 2, "Name the folder that holds supabase/, as in"],
    ["a b", 2, "Name the folder that holds supabase/, as in"],
    [". --yes --check", 2, "Choose one of --yes and --check."],
    ["nowhere", 1, "has no supabase/config.toml. Name the folder"],
    [".", 1, "has no supabase/config.toml. Name the folder"],
    [REPOSITORY, 1, "is the receiver itself"],
  ] as const
) {
  Deno.test(`add ${line}: ${says}`, () => add("/", line, code, says));
}
