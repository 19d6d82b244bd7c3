/**
 * `deno task locks`: writes the lock files of what does not use `deno.lock`: of
 * each function, which the platform's Deno has to be able to read; of the npm
 * package, which downloads only what its commands need; and of the browser tests,
 * whose browser only they download.
 *
 * @module
 */
import { join } from "node:path";
import { reportEnd } from "../common/cli.ts";
import { toolEnvironment } from "../common/create_command.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { runTool } from "../common/run_tool.ts";
import { CACHE_COMMANDS, STACK_FOLDER, stackConfig } from "./npm_package.ts";
import {
  BROWSER_ENTRY,
  BROWSER_FOLDER,
  BROWSER_OPTIONS,
} from "./test/browser_tests.ts";
import { edgeDenoPath } from "./test/downloads.ts";

const FUNCTIONS = ["billing-webhook", "billing-worker"];

if (import.meta.main) {
  Deno.exit(await generateLocks().catch((error) => reportEnd(error)));
}

async function generateLocks(): Promise<number> {
  const edgeDeno = await edgeDenoPath();
  for (const name of FUNCTIONS) {
    const folder = `supabase/functions/${name}`;
    await generate(`${folder}/deno.lock`, edgeDeno, [
      "cache",
      `--config=${folder}/deno.json`,
      `${folder}/index.ts`,
    ]);
  }
  const deno = Deno.execPath();
  await generate("scripts/npx/deno.lock", deno, CACHE_COMMANDS);
  await generate(`${BROWSER_FOLDER}/deno.lock`, deno, [
    ...["cache", ...BROWSER_OPTIONS, BROWSER_ENTRY],
  ]);
  const config = `${STACK_FOLDER}/deno.json`;
  await Deno.writeTextFile(join(REPOSITORY, config), stackConfig());
  await generate(`${STACK_FOLDER}/deno.lock`, deno, [
    ...["install", "--lockfile-only", `--config=${config}`],
  ]);
  return 0;
}

/** Makes a lock file anew. */
async function generate(
  file: string,
  deno: string,
  args: readonly string[],
): Promise<void> {
  await Deno.remove(join(REPOSITORY, file)).catch(() => {});
  await runTool({
    purpose: `write ${file}`,
    command: deno,
    args,
    env: toolEnvironment(),
    cwd: REPOSITORY,
  });
  console.log(`Wrote ${file}`);
}
