/** What the tests download, besides the packages of `deno install`. */
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import denoConfig from "../../deno.json" with { type: "json" };
import { runTool, toolEnvironment } from "../local_stack/tools.ts";
import { REPOSITORY } from "../common/environment.ts";

export const EDGE_DENO_VERSION = "2.1.4";

/** The folders whose packages are not in `import_map.json`: `start` needs none of them. */
export const OWN_PACKAGES = [
  "tests/console",
  "tests/judges",
  "tests/postgres_15",
] as const;

export const OWN_IMPORT_MAP = "tests/import_map.json";

export const OWN_LOCK = "tests/deno.lock";

export const OWN_OPTIONS = [
  "--no-config",
  "--node-modules-dir=none",
  `--import-map=${OWN_IMPORT_MAP}`,
  `--lock=${OWN_LOCK}`,
];

export function ownDownload(folders: readonly string[]): string[] {
  const entries = folders
    .map((folder) => `${folder}/${basename(folder)}.test.ts`);
  return ["cache", ...OWN_OPTIONS, ...entries];
}

/** The commands of the npm package: the tasks with a script in `scripts`. */
export const COMMANDS = Object.keys(denoConfig.tasks)
  .filter((name) => existsSync(join(REPOSITORY, "scripts", `${name}.ts`)));

export const NO_DOWNLOADS = {
  npm_config_offline: "true",
  // The discard port, where nothing listens, because Deno has no switch that its
  // child processes inherit. The machine's NO_PROXY may list the registry.
  HTTPS_PROXY: "http://127.0.0.1:9",
  https_proxy: "http://127.0.0.1:9",
  NO_PROXY: "127.0.0.1,localhost",
  no_proxy: "127.0.0.1,localhost",
};

/** Downloads what is missing, except for {@linkcode OWN_PACKAGES}. */
export async function downloadForTests(signal?: AbortSignal): Promise<string> {
  console.log("\n== downloads, if missing: packages");
  // npm installs this Deno with the npm package. If npx started the tests, it has
  // downloaded it already.
  if (Deno.env.get("npm_command") !== "exec") {
    await run("npx", ["-y", `deno@${Deno.version.deno}`, "--version"], signal);
  }

  return await edgeDenoPath(signal);
}

export async function downloadOwn(folder: string, signal?: AbortSignal) {
  console.log(`\n== downloads, if missing: packages of ${folder}`);
  await run(Deno.execPath(), [...ownDownload([folder]), "--frozen"], signal);
}

/** Returns the path of the Deno that Supabase's edge runtime is built on. */
export async function edgeDenoPath(signal?: AbortSignal): Promise<string> {
  const path = await run("npx", [
    "-y",
    `deno@${EDGE_DENO_VERSION}`,
    "eval",
    "--no-config",
    "--no-lock", // it cannot read the lock file
    "console.log(Deno.execPath())",
  ], signal);
  return path.trim();
}

/** Runs npm or Deno, which may download something. Returns what it printed. */
export function run(
  command: string,
  args: readonly string[],
  signal?: AbortSignal,
): Promise<string> {
  return runTool({
    purpose: `run ${args.join(" ")}, with npm's registry`,
    command,
    args,
    env: toolEnvironment(),
    cwd: REPOSITORY,
  }, signal);
}
