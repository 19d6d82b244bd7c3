import type { Environment } from "../common/environment.ts";
import { isFromPackage, PROJECT } from "../common/how_started.ts";
import { isListening } from "../common/is_listening.ts";
import type { LocalKeys } from "../common/keys.ts";
import type { ServiceSpec } from "./service.ts";
import { toolEnvironment } from "../common/create_command.ts";

/**
 * Returns the options with which Deno reads what is uploaded with a function,
 * its own `deno.json` and `deno.lock`, and nothing else of this repository.
 *
 * @param name the function's folder
 */
export function platformOptions(name: string): string[] {
  const folder = `supabase/functions/${name}`;
  return [
    "--no-config",
    "--node-modules-dir=none",
    "--import-map",
    `${folder}/deno.json`,
    "--lock",
    `${folder}/deno.lock`,
    "--frozen",
  ];
}

/** How functions are served. */
export interface ServeOptions {
  /** The Deno that serves them. */
  readonly denoPath: string;
  /** Their settings, including those of the platform. */
  readonly env: Environment;
}

/**
 * Returns how to serve a function: in its own process, which may use the network
 * and read its environment, and nothing else, as on the platform. Another
 * version of Deno uses what was downloaded for it before and downloads nothing.
 *
 * @param name the function's folder; without `billing-` it marks its log lines
 */
export function functionService(
  name: string,
  options: ServeOptions & { readonly port: number },
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
      ...(isFromPackage
        ? platformOptions(name)
        : isOwn
        ? ["--frozen"]
        : ["--cached-only", ...platformOptions(name)]),
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      `supabase/functions/${name}/index.ts`,
    ],
    // Its errors are printed beside lines that have no colours.
    env: { ...toolEnvironment(), NO_COLOR: "1", ...env },
    cwd: PROJECT,
    // `deno serve` listens once the module is loaded.
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  };
}

/**
 * Returns the settings that Supabase itself gives to a function: the maps of
 * keys, and the single keys of the old kind.
 *
 * @param options.apiUrl the gateway's URL
 * @param options.dbUrl the database's connection string, for `postgres`
 */
export function platformEnvironment(
  options: {
    readonly apiUrl: string;
    readonly dbUrl: string;
    readonly keys: LocalKeys;
  },
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
