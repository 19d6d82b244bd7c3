import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  planConfig,
  planConfigRemoval,
  readConfig,
} from "../../scripts/add/config.ts";
import { createCommand } from "../../scripts/common/processes.ts";
import { makeProject, THEIRS } from "../support/project_folder.ts";
import { runCommand } from "../support/run_script.ts";

function added(text: string): string {
  return planConfig(readConfig("config.toml", text)).text!;
}

Deno.test("the sections leave config.toml as it was, or as it is", () => {
  const removal = (text: string, name = "config.toml") =>
    planConfigRemoval(readConfig(name, text));
  for (
    const [before, behind] of [
      ["", ""],
      ["a = 1\n", ""],
      ["a = 1\n\n", "\n[functions.hello]\n"],
      ["\ufeffa = 1\r\n", ""],
    ] as const
  ) {
    const plan = removal(added(before) + behind);
    assertEquals(plan, { text: before + behind, todo: [] });
  }

  const both = added("");
  const remote = "[remotes.live.functions.billing-worker]\n";
  const changed = both.replace("\n\n", "\nenabled = true\n\n");
  const isWebhook =
    "In supabase/config.toml, delete [functions.billing-webhook].";
  for (
    const [text, after, ...todo] of [
      [`a = '''\n${both}'''`, `a = '''\n${both}'''`],
      [changed, changed.split("\n\n")[0] + "\n", isWebhook],
      [
        both + remote,
        remote,
        "In supabase/config.toml, delete [remotes.live.functions.billing-worker].",
      ],
    ] as const
  ) {
    assertEquals(removal(text), { text: after, todo: [...todo] });
  }

  const json = '{ "functions": { "billing-worker": {} } }';
  const todo = ["In supabase/config.json, delete billing-worker."];
  assertEquals(removal(json, "config.json"), { text: json, todo });
});

const HANDLER = "migrations/20990101000001_billing_handlers.sql";
const MIGRATION = "migrations/20261122095959_billing.sql";
const SNIPPET = "snippets/billing_triage.sql";

async function run(from: string, args: string, exit: number, says: string) {
  const env = { INIT_CWD: from };
  const { code, out, err } = await runCommand("remove", args.split(" "), env);
  assertStringIncludes(out + err, says);
  assertEquals(code, exit);
  return out;
}

Deno.test("remove takes out what add has put there, where git can undo it", async () => {
  await using project = await makeProject({
    ...THEIRS,
    "schemas/tables.sql": "create table notes (billing_address text);\n",
    [HANDLER]: 'create function "billing"."on_charge_refunded"();\n',
  });
  const { path } = project;
  const look = async () => ({
    tree: await project.tree(),
    names: [...Deno.readDirSync(`${path}/supabase`)].map(({ name }) => name)
      .sort(),
  });
  const before = await look();
  await project.commit();
  await run(path, ".", 0, "There is nothing to remove: ");

  await project.add();
  await project.write(SNIPPET, "mine");
  await run(path, ". --yes", 1, "these changes are not committed");
  await project.commit();
  const added = await look();
  await run(
    path,
    ". --dry-run",
    0,
    "remove supabase/schemas/billing_99_yours.sql",
  );
  assertEquals(await look(), added);

  const output = await run(path, ". --yes", 0, `In ${path}:\n`);
  assertStringIncludes(output, `You have changed supabase/${SNIPPET}: git`);
  assertMatch(output, /\nLook at .*:\n {2}supabase\/\S+handlers\.sql\nNext: /);
  const [rm = ""] = /(?<=^ {2})rm .+$/m.exec(output) ?? [];
  assertMatch(rm, /^rm \S+2_billing\.sql \S+3_billing_remove\.sql$/);
  await createCommand("sh", { args: ["-c", rm], cwd: path }).output();
  assertEquals(await look(), before);
});

Deno.test("remove deletes nothing through a link, and no migration that was squashed", async () => {
  await using project = await makeProject();
  await project.add();
  const { path } = project;
  const folder = `${path}/supabase/snippets`;
  await Deno.rename(folder, `${path}/moved`);
  await Deno.symlink(`${path}/moved`, folder);
  await project.commit();
  await run(path, ". --yes", 1, "- supabase/snippets is a link to");

  await Deno.remove(folder);
  await project.remove(MIGRATION);
  await project.commit();
  const output = await run(path, ". --yes", 0, "Done.");
  assertEquals(output.includes("migration repair"), false, output);
});
