import { fileURLToPath } from "node:url";
import type { Environment } from "../common/environment.ts";
import { isListening } from "../common/is_listening.ts";
import type { LocalKeys } from "../common/keys.ts";
import type { ServiceSpec } from "./service.ts";
import { toolEnvironment } from "../common/create_command.ts";

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
 */
export function functionService(
  name: string,
  options: ServeOptions & { port: number },
): ServiceSpec {
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
      `supabase/functions/${name}/index.ts`,
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: REPOSITORY,
    // `deno serve` listens once the module is loaded.
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  };
}

/**
 * The names that Supabase itself gives to a function: the maps of keys, and
 * the single keys of the old kind.
 *
 * @param options.apiUrl the gateway's address
 * @param options.dbUrl the database's, for `postgres`
 */
export function platformEnvironment(
  options: { apiUrl: string; dbUrl: string; keys: LocalKeys },
): Environment {
  const { apiUrl, dbUrl, keys } = options;
  return {
    SUPABASE_URL: apiUrl,
    SUPABASE_DB_URL: dbUrl,
    SUPABASE_PUBLISHABLE_KEYS: JSON.stringify({ default: keys.publishable }),
    SUPABASE_SECRET_KEYS: JSON.stringify({ default: keys.secret }),
    SUPABASE_ANON_KEY: keys.anon,
    SUPABASE_SERVICE_ROLE_KEY: keys.serviceRole,
  };
}
