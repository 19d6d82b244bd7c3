/**
 * `deno task release`: it leaves no trace if it is refused, and it keeps the
 * functions that were published.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import manifest from "../../../package.json" with { type: "json" };
import { createCommand } from "../../../scripts/common/create_command.ts";
import {
  keepFunctions,
  RELEASED_FUNCTIONS,
} from "../../../scripts/dev/release/released_functions.ts";
import { readMigrations } from "../../../scripts/dev/release/released_migrations.ts";
import { copyRepository } from "../../support/copy_repository.ts";
import { makeProject } from "../../support/project_folder.ts";

/** Runs git in a folder, as somebody. */
async function git(cwd: string, ...args: string[]): Promise<string> {
  const settings = ["user.name=a", "user.email=a@b.example"];
  const { success, stdout, stderr } = await createCommand("git", {
    args: [...settings.flatMap((it) => ["-c", it]), ...args],
    cwd,
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(decoder.decode(stderr));
  return decoder.decode(stdout);
}

async function commitAll(cwd: string): Promise<void> {
  await git(cwd, "init", "--quiet");
  await git(cwd, "add", "--all");
  await git(cwd, "commit", "--quiet", "--message", "All");
}

Deno.test("a release with an edited migration is refused, and nothing is written", async () => {
  await using copy = await copyRepository();
  const [first = ""] = (await readMigrations()).keys();
  for (
    const [path, text] of [
      ["CHANGELOG.md", "# Changelog\n\n## [99.0.0] - 2099-01-01\n\n- New.\n"],
      [`${RELEASED_FUNCTIONS}/version.txt`, manifest.version],
    ] as const
  ) await Deno.writeTextFile(join(copy.path, path), text);
  await commitAll(copy.path);
  const edited = `supabase/migrations/${first}`;
  await Deno.writeTextFile(join(copy.path, edited), "select 1;");
  await assertRejects(
    () =>
      copy.run(
        Deno.execPath(),
        ...["run", "-A", "--no-check", "scripts/dev/release.ts", "99.0.0"],
      ),
    Error,
    `${edited} was released with`,
  );
  assertEquals(await git(copy.path, "status", "--short"), ` M ${edited}\n`);
});

Deno.test("keepFunctions() takes what the tag has, without lock files", async () => {
  const webhook = "supabase/functions/billing-webhook";
  await using project = await makeProject({
    [`${webhook}/index.ts`]: "// tagged\n",
    [`${webhook}/schemes/stripe.ts`]: "// a scheme\n",
    [`${webhook}/deno.lock`]: "{}",
    "supabase/functions/_shared/billing/log.ts": "// shared\n",
    "supabase/functions/hello/index.ts": "// not ours\n",
    "supabase/snippets/1_x.sql": "select 1;",
    [`${RELEASED_FUNCTIONS}/version.txt`]: "1.0.0\n",
    [`${RELEASED_FUNCTIONS}/billing-webhook/gone.ts`]: "// older\n",
  }, "");
  const before = await project.tree();
  await assertRejects(
    () => keepFunctions("1.1.0", project.path),
    Error,
    "Cannot read the functions of v1.1.0",
  );
  assertEquals(await project.tree(), before);

  await git(project.path, "tag", "v1.1.0");
  await project.write(`${webhook}/index.ts`, "// not committed\n");
  await project.write(`${webhook}/new.ts`, "// not committed\n");
  await keepFunctions("1.1.0", project.path);
  const kept = Object.entries(await project.tree())
    .filter(([path]) => path.startsWith(RELEASED_FUNCTIONS));
  assertEquals(Object.fromEntries(kept), {
    [`${RELEASED_FUNCTIONS}/_shared/billing/log.ts`]: "// shared\n",
    [`${RELEASED_FUNCTIONS}/billing-webhook/index.ts`]: "// tagged\n",
    [`${RELEASED_FUNCTIONS}/billing-webhook/schemes/stripe.ts`]:
      "// a scheme\n",
    [`${RELEASED_FUNCTIONS}/version.txt`]: "1.1.0\n",
  });
});
