/**
 * The recipes in CONTRIBUTING are true: each, done on a copy of the repository
 * by its patch, touches the files that it names and no others, and with all of
 * them done the receiver takes what is new.
 *
 * Where a patch does not apply any more, do the recipe by hand in a clone and
 * put `git diff -U1` in its place.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { copyRepository } from "../support/copy_repository.ts";

const CONTRIBUTING = await Deno.readTextFile(
  new URL("../../CONTRIBUTING.md", import.meta.url),
);

const RECIPES = {
  "Add an event type": "add_event_type.patch",
  "Add a provider": "add_provider.patch",
  "Add a signature scheme": "add_signature_scheme.patch",
};

/** Tests of what lists all providers. No recipe changes them. */
const OF_ALL_PROVIDERS = [
  "tests/unit/common/provider_settings.test.ts",
  "tests/unit/local_stack/announcement.test.ts",
  "tests/unit/stripe_sync/arguments.test.ts",
];

function pathOf(patch: string): string {
  return fileURLToPath(new URL(patch, import.meta.url));
}

/** The comment at the top of each file of docs/schema. */
const HEAD = /^(?:-- .+\n)+/;

/** The files that begin the steps below a heading. */
function namedFiles(heading: string): string[] {
  const [, section = ""] = CONTRIBUTING.split(`### ${heading}\n`);
  const [steps = ""] = section.split("\n#");
  return Array.from(
    steps.matchAll(/^\d+\. `([^`]+)`/gm),
    ([, file = ""]) => file,
  )
    .sort();
}

/** The files that a patch changes or adds; a migration's time is its author's. */
async function touchedFiles(patch: string): Promise<string[]> {
  const text = await Deno.readTextFile(pathOf(patch));
  return Array.from(
    text.matchAll(/^\+\+\+ b\/(.+)$/gm),
    ([, file = ""]) => file,
  )
    .map((file) => file.replace("/20270101000001_", "/<version>_"))
    .sort();
}

/** Copies the definitions that a patch changes into its migration, as step 3 says. */
async function repeatDefinitions(copy: string): Promise<void> {
  const files = await touchedFiles("add_event_type.patch");
  const added = files.find((file) => file.includes("/<version>_")) ?? "";
  const migration = added.replace("/<version>_", "/20270101000001_");
  const definitions = files.filter((file) => file.startsWith("docs/schema/"));
  assertEquals(definitions.length, 3);
  for (const file of definitions) {
    await Deno.writeTextFile(
      `${copy}/${migration}`,
      (await Deno.readTextFile(`${copy}/${file}`)).replace(HEAD, ""),
      { append: true },
    );
  }
}

for (const [recipe, patch] of Object.entries(RECIPES)) {
  Deno.test(`"${recipe}" names the files that it touches, and no others`, async () => {
    const named = namedFiles(recipe);
    assert(named.length > 2, CONTRIBUTING);
    assertEquals(named, await touchedFiles(patch));
  });
}

Deno.test("the recipes work on the repository as it is, each by itself and all together", async (test) => {
  await using copy = await copyRepository();
  const deno = Deno.execPath();
  for (const patch of Object.values(RECIPES)) {
    await copy.run("git", "apply", "--check", pathOf(patch));
  }
  for (const patch of Object.values(RECIPES)) {
    await copy.run("git", "apply", pathOf(patch));
  }
  await repeatDefinitions(copy.path);
  const touched = (await Promise.all(Object.values(RECIPES).map(touchedFiles)))
    .flat()
    .filter((file) => file.endsWith(".ts"));

  await test.step("formatting, lint and types", async () => {
    await copy.run(deno, "fmt", "--check", "README.md", ...touched);
    await copy.run(deno, "lint", ...touched);
    const entries = ["billing-webhook", "billing-worker"]
      .map((name) => `supabase/functions/${name}/index.ts`);
    await copy.run(deno, "check", ...entries, "scripts/trigger.ts", ...touched);
  });

  await test.step("the receiver, the database and the tests", async () => {
    const said = await copy.run(
      deno,
      "run",
      "-A",
      "scripts/dev/test.ts",
      "tests/recipes/in_the_copy.ts",
      ...touched.filter((file) => file.endsWith(".test.ts")),
      ...OF_ALL_PROVIDERS,
    );
    assertStringIncludes(said, " passed, 0 failed");
  });
});
