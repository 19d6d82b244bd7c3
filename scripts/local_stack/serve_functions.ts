import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Environment } from "../common/environment.ts";
import { isListening } from "../common/is_listening.ts";
import { isThere } from "../common/is_there.ts";
import type { ServiceSpec } from "./service.ts";
import { toolEnvironment } from "../common/tool_environment.ts";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));

/**
 * How another Deno than this one reads the functions: with the import map
 * alone, like the platform, because the forms of the configuration and of the
 * lock file change.
 */
export const PLATFORM_OPTIONS = [
  "--no-config",
  "--no-lock",
  "--import-map",
  "import_map.json",
];

/** What functions are served with. */
export type ServeOptions = {
  /** The Deno that serves them. */
  denoPath: string;
  /** Their settings, those of the platform among them. */
  env: Environment;
};

/**
 * How to serve a function: in a process of its own that may use the network
 * and read its environment, and nothing else, as on the platform.
 *
 * Another Deno than the one that runs this takes what was downloaded for it
 * before, and downloads nothing.
 *
 * @param name the function's folder; without `billing-` it is what its log
 *   lines are marked with
 * @returns nothing where there is no such function
 */
export async function functionService(
  name: string,
  options: ServeOptions & { port: number },
): Promise<ServiceSpec | undefined> {
  const entry = join("supabase", "functions", name, "index.ts");
  if (!await isThere(join(REPOSITORY, entry))) return undefined;
  const { denoPath, env, port } = options;
  const isOwn = denoPath === Deno.execPath();
  return {
    name: name.replace("billing-", ""),
    command: denoPath,
    args: [
      "serve",
      "--quiet",
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      ...(isOwn ? ["--frozen"] : ["--cached-only", ...PLATFORM_OPTIONS]),
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      entry,
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: REPOSITORY,
    // `deno serve` listens once the module is loaded.
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  };
}
