/**
 * The npm package: what is in it, and what package.json repeats.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { readReceiver } from "../../../scripts/add/receiver.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { COMMANDS } from "../../../scripts/dev/downloads.ts";
import { copyRepository } from "../../support/copy_repository.ts";
import { migrationNames } from "../../support/databases.ts";

/** What is neither imported by a command nor copied by `add`. */
const BESIDES = [
  // The console names its sections.
  "docs/runbook.md",
  "LICENSE",
  "README.md",
  "package.json",
  "scripts/npx/deno.lock",
  "scripts/npx/main.mjs",
  "scripts/npx/stack/deno.json",
  "scripts/npx/stack/deno.lock",
  "supabase/config.toml",
];

/** What a maintainer's clone may hold, and nobody else may get. */
const PLANTED = [
  ".env",
  ".stack/database/x",
  "scripts/add/.env",
  "scripts/npx/stack/node_modules/x/index.js",
  "supabase/.temp/project-ref",
  "supabase/functions/.env",
  "supabase/functions/.env.local",
  "supabase/functions/billing-webhook/.env",
];

async function json(cwd: string, command: string, ...args: string[]) {
  const { stdout } = await createCommand(command, { args, cwd }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("the package has what the commands import and what add copies, and nothing besides", async () => {
  await using clone = await copyRepository();
  for (const path of PLANTED) {
    const file = join(clone.path, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, "SECRET=1");
  }
  const [{ files }] = await json(
    clone.path,
    "npm",
    ...["pack", "--dry-run", "--json", "--ignore-scripts"],
  );
  const needed = new Set(BESIDES);
  for (const name of COMMANDS) {
    const script = `scripts/${name}.ts`;
    const graph = await json(
      REPOSITORY,
      Deno.execPath(),
      ...["info", "--json", script],
    );
    for (const { local } of graph.modules as { local?: string }[]) {
      const path = local?.replace(`${REPOSITORY}/`, "") ?? "node_modules/";
      if (!path.startsWith("node_modules/")) needed.add(path);
    }
  }
  const { files: functions, schemas } = await readReceiver();
  for (const path of functions.keys()) needed.add(`supabase/${path}`);
  for (const path of schemas.keys()) needed.add(`supabase/${path}`);
  for (const name of migrationNames()) {
    needed.add(`supabase/migrations/${name}`);
  }
  assert(needed.size > 100, `only ${needed.size} files are needed`);
  const packed = (files as { path: string }[]).map(({ path }) => path);
  assertEquals(packed.sort(), [...needed].sort());
});

Deno.test("package.json has the gate's Deno", async () => {
  const read = (name: string) => Deno.readTextFile(join(REPOSITORY, name));
  const [, deno] = /npx -y deno@(\S+) task test/.exec(await read(".ci/run"))!;
  const manifest = JSON.parse(await read("package.json"));
  // Not among `dependencies`: Deno would install itself into this repository.
  assertEquals(manifest.optionalDependencies, { deno });
  assertEquals(manifest.dependencies, undefined);
});
