/**
 * The npm package: what is in it, and what package.json repeats.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { readReceiver } from "../../../scripts/add/receiver.ts";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { COMMANDS } from "../../../scripts/dev/npm_package.ts";
import { copyRepository } from "../../support/copy_repository.ts";
import { migrationNames } from "../../support/migrate_part.ts";

/** What is neither imported by a command nor copied by `add`. */
const BESIDES = [
  // The console reads both.
  "docs/runbook.md",
  "scripts/console/style.css",
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
  "supabase/functions/billing-worker/.env.local",
];

function read(path: string): Promise<string> {
  return Deno.readTextFile(join(REPOSITORY, path));
}

async function run(
  command: string,
  { args, cwd = REPOSITORY }: { args: string[]; cwd?: string },
): Promise<string> {
  const { stdout } = await createCommand(command, { args, cwd }).output();
  return new TextDecoder().decode(stdout);
}

/** Returns the files of a clone that npm packs. */
async function packedFiles(cwd: string): Promise<string[]> {
  const text = await run("npm", {
    args: ["pack", "--dry-run", "--json", "--ignore-scripts"],
    cwd,
  });
  const [{ files }] = JSON.parse(text) as [{ files: { path: string }[] }];
  return files.map(({ path }) => path).sort();
}

/** Returns the files that the commands import, JSON included. */
async function importedFiles(): Promise<string[]> {
  const found = new Set<string>();
  for (const name of COMMANDS) {
    const text = await run(Deno.execPath(), {
      args: ["info", "--json", `scripts/${name}.ts`],
    });
    const graph = JSON.parse(text) as { modules: { local?: string }[] };
    for (const { local } of graph.modules) {
      if (local) found.add(local.replace(`${REPOSITORY}/`, ""));
    }
  }
  return [...found].filter((path) => !path.startsWith("node_modules/"));
}

/** Returns the files that `add` copies. */
async function copiedFiles(): Promise<string[]> {
  const { files, schemas } = await readReceiver();
  return [
    ...files.keys(),
    ...migrationNames().map((name) => `migrations/${name}`),
    ...Array.from(schemas.keys(), (name) => `schemas/${name}`),
  ].map((path) => `supabase/${path}`);
}

Deno.test("the package has what the commands import and what add copies, and nothing besides", async () => {
  await using clone = await copyRepository();
  for (const path of PLANTED) {
    const file = join(clone.path, path);
    await Deno.mkdir(join(file, ".."), { recursive: true });
    await Deno.writeTextFile(file, "SECRET=1");
  }
  const needed = new Set([
    ...await importedFiles(),
    ...await copiedFiles(),
    ...BESIDES,
  ]);
  assert(needed.size > 150, `only ${needed.size} files are needed`);
  assertEquals(await packedFiles(clone.path), [...needed].sort());
});

Deno.test("package.json has the gate's Deno", async () => {
  const [, deno] = /npx -y deno@(\S+) task test/.exec(await read(".ci/run"))!;
  const manifest = JSON.parse(await read("package.json"));
  // Not among `dependencies`: Deno would install itself into this repository.
  assertEquals(manifest.optionalDependencies, { deno });
  assertEquals(manifest.dependencies, undefined);
});
