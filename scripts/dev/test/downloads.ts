import { fileURLToPath } from "node:url";
import { createCommand } from "../../common/create_command.ts";
import { platformOptions } from "../../local_stack/serve_functions.ts";
import { EDGE_DENO_VERSION, edgeDenoPath } from "./edge_deno.ts";

const REPOSITORY = fileURLToPath(new URL("../../..", import.meta.url));
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
 * Downloads what the tests need besides the packages of `deno install`, if
 * it is not there yet, and shows what.
 *
 * @returns the path of the Deno that Supabase's edge runtime is built on
 * @throws {Error} Where the registry cannot be reached.
 */
export async function downloadForTests(): Promise<string> {
  const started = performance.now();
  console.log(
    `\n== downloads, if missing: Deno ${EDGE_DENO_VERSION}, and the functions' packages for it`,
  );
  const edgeDeno = await downloadEdgeDeno();
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`== downloads: ok (${seconds} s)`);
  return edgeDeno;
}

/**
 * Downloads the Deno that Supabase's edge runtime is built on, and the packages
 * that the functions import, as it resolves them.
 *
 * @returns its path
 * @throws {Error} Where the registry cannot be reached.
 */
export async function downloadEdgeDeno(): Promise<string> {
  const edgeDeno = await edgeDenoPath();
  for (const name of FUNCTIONS) {
    await download(edgeDeno, [
      "cache",
      ...platformOptions(name),
      `supabase/functions/${name}/index.ts`,
    ]);
  }
  return edgeDeno;
}

async function download(program: string, args: string[]): Promise<void> {
  const { success } = await createCommand(program, {
    args,
    cwd: REPOSITORY,
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).spawn().status;
  if (success) return;
  throw new Error(
    `Cannot download what the tests need: ${program} ${
      args.join(" ")
    } failed. See above.`,
  );
}
