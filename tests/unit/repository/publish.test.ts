/**
 * The workflow that makes a release. What it runs is run here too, but for the
 * uploads themselves.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

const text = await Deno.readTextFile(
  join(REPOSITORY, ".github/workflows/publish.yml"),
);
const { version } = JSON.parse(
  await Deno.readTextFile(join(REPOSITORY, "package.json")),
);

/** Returns the command of a step. */
function commandOf(step: string): string {
  const [, command = ""] =
    new RegExp(`- name: ${step}\n +run: (?!\\|)(.+)\n`).exec(text) ?? [];
  assert(command !== "", step);
  return command;
}

/** Runs the commands of steps in a folder that has the package.json. */
async function run(steps: readonly string[], tag: string) {
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "package.json");
    await Deno.copyFile(join(REPOSITORY, "package.json"), file);
    const { code } = await createCommand("bash", {
      args: ["-ec", steps.map(commandOf).join("\n")],
      cwd: folder,
      env: {
        GITHUB_REF_NAME: tag,
        GITHUB_SERVER_URL: "https://git.example",
        GITHUB_REPOSITORY: "owner/name",
      },
    }).output();
    return { code, manifest: JSON.parse(await Deno.readTextFile(file)) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("the workflow publishes the version of the tag only", async () => {
  const step = ["Compare the tag with the version"];
  assertEquals((await run(step, `v${version}`)).code, 0);
  for (const tag of [version, `v${version}1`, "v"]) {
    assertEquals((await run(step, tag)).code, 1, tag);
  }
});

Deno.test("the workflow names the repository that it runs in", async () => {
  const { code, manifest } = await run(["Name the repository"], "");
  assertEquals([code, manifest.repository], [0, {
    type: "git",
    url: "git+https://git.example/owner/name.git",
  }]);
});

Deno.test("the workflow tests first, then publishes with provenance, then writes the release", () => {
  const names = Array.from(
    text.matchAll(/^ {2}(\w+):$|- name: (.+)/gm),
    ([, job, step]) => job ?? step,
  ).filter((name) => name !== "push" && name !== "Check out");
  assertEquals(names, [
    "check",
    "Compare the tag with the version",
    "Test",
    "Audit",
    "publish",
    "Name the repository",
    "Publish",
    "notes",
    "Pack",
    "Release",
  ]);
  assertEquals(commandOf("Test"), ".ci/run");
  assert(
    /^npx -y npm@[\d.]+ publish --ignore-scripts --provenance --access public$/
      .test(commandOf("Publish")),
  );
  assertEquals(
    Array.from(text.matchAll(/^ {4}needs: (.+)$/gm), ([, needs]) => needs),
    ["check", "[check, publish]"],
  );
});

Deno.test("a tag starts it, and npm gets nothing until a maintainer enables it", () => {
  const [, job = ""] = text.split("\n  publish:\n");
  assert(
    job.startsWith("    needs: check\n    if: vars.PUBLISH_TO_NPM == 'true'\n"),
  );
  assertEquals(
    [...text.matchAll(/^on:\n((?: .*\n)+)/gm)].map(([, on]) => on),
    ['  push:\n    tags: ["v*"]\n'],
  );
});
