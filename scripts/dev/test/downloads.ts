import { cp } from "node:fs/promises";
import { toolEnvironment } from "../../common/create_command.ts";
import { REPOSITORY } from "../../common/how_started.ts";
import { runTool } from "../../common/run_tool.ts";
import { platformOptions } from "../../local_stack/functions.ts";
import { CACHE_COMMANDS, STACK_FOLDER } from "../npm_package.ts";
import { BROWSER_ENTRY, BROWSER_OPTIONS } from "./browser_tests.ts";

/** The version that Supabase's edge runtime is built on. */
export const EDGE_DENO_VERSION = "2.1.4";

const FUNCTIONS = ["billing-webhook", "billing-worker"];

/** What a test's process finds set, so that none reaches for the registry. */
export const NO_DOWNLOADS = {
  npm_config_offline: "true",
  // The discard port: nobody listens there, and Deno has no switch of its own
  // for all the processes below it.
  HTTPS_PROXY: "http://127.0.0.1:9",
  https_proxy: "http://127.0.0.1:9",
  // The machine's own list may have the registry on it.
  NO_PROXY: "127.0.0.1,localhost",
  no_proxy: "127.0.0.1,localhost",
};

/**
 * Downloads what the tests need besides the packages of `deno install`, if it
 * is not there yet: the Deno that Supabase's edge runtime is built on, and the
 * packages that the functions import, as their lock files name them; and what
 * is installed with the npm package.
 *
 * @returns the path of that Deno
 * @throws {Error} If the registry cannot be reached.
 */
export async function downloadForTests(signal?: AbortSignal): Promise<string> {
  const startedMs = performance.now();
  console.log(
    `\n== downloads, if missing: what the npm package installs, and Deno ${EDGE_DENO_VERSION} with the functions' packages`,
  );
  await downloadForPackage(signal);
  const edgeDeno = await edgeDenoPath(signal);
  for (const name of FUNCTIONS) {
    const entry = `supabase/functions/${name}/index.ts`;
    const options = platformOptions(name);
    await run(edgeDeno, ["cache", ...options, entry], signal);
    // As `start` of the npm package serves them. To read a lock of this form,
    // this Deno asks the registry, the first time.
    await run(Deno.execPath(), ["cache", ...options, entry], signal);
    // What the registry says of them, for tests without the lock files.
    const unlocked = ["--no-config", "--no-lock", "--import-map"];
    const map = `supabase/functions/${name}/deno.json`;
    await run(edgeDeno, ["cache", ...unlocked, map, entry], signal);
  }
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`== downloads: ok (${seconds} s)`);
  return edgeDeno;
}

/**
 * Downloads the browser of the tests, if it is not there yet.
 *
 * @throws {Error} If the registry cannot be reached.
 */
export async function downloadBrowser(signal?: AbortSignal): Promise<void> {
  const startedMs = performance.now();
  console.log("\n== downloads, if missing: the browser");
  await run(
    Deno.execPath(),
    ["cache", ...BROWSER_OPTIONS, "--frozen", BROWSER_ENTRY],
    signal,
  );
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`== downloads: ok (${seconds} s)`);
}

/** Downloads what npm and Deno install with this project's npm package. */
async function downloadForPackage(signal?: AbortSignal): Promise<void> {
  await run("npx", ["-y", `deno@${Deno.version.deno}`, "--version"], signal);
  await run(Deno.execPath(), [...CACHE_COMMANDS, "--frozen"], signal);
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-stack-" });
  try {
    await cp(`${REPOSITORY}/${STACK_FOLDER}`, folder, { recursive: true });
    const config = `--config=${folder}/deno.json`;
    await run(Deno.execPath(), ["install", "--frozen", config], signal);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/**
 * Returns the path of the Deno that Supabase's edge runtime is built on, which
 * npm downloads if it is not there yet.
 *
 * @throws {Error} If npm is not there, or cannot download it.
 */
export async function edgeDenoPath(signal?: AbortSignal): Promise<string> {
  const path = await run("npx", [
    "-y",
    `deno@${EDGE_DENO_VERSION}`,
    "eval",
    // Its lock file has another form.
    "--no-config",
    "--no-lock",
    "console.log(Deno.execPath())",
  ], signal);
  return path.trim();
}

function run(
  command: string,
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string> {
  return runTool({
    purpose: "download what the tests need, with npm and its registry",
    command,
    args,
    env: toolEnvironment(),
    cwd: REPOSITORY,
  }, signal);
}
