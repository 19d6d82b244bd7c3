import { toolEnvironment } from "./tools.ts";
import { BUILT_OPTIONS, builtFile } from "../common/built.ts";
import {
  type Environment,
  isFromPackage,
  PROJECT,
} from "../common/environment.ts";
import { isListening } from "../common/loopback.ts";
import type { LocalKeys } from "./keys.ts";
import type { ServiceSpec } from "./service.ts";

/** Matches lines of Deno itself, which cannot be quiet while it watches. */
export const DENO_LINES =
  /^(?:deno serve: Listening|Watcher (?:Process (?:started|finished)|Waiting)|Download )/;

/**
 * A function may use the network and read its environment, and nothing else, as on the
 * platform. This Deno serves a clone's sources; another one, such as the platform's,
 * what is built of them; and the npm package, what `add` has put into the project.
 */
export function functionService(
  name: string,
  { denoPath, env, watch, port }: {
    denoPath: string;
    env: Environment;
    port: number;
    watch?: boolean | undefined;
  },
): ServiceSpec {
  let options = BUILT_OPTIONS;
  let entry = builtFile(name);
  if (isFromPackage) {
    entry = `supabase/functions/${name}/index.mjs`;
  } else if (denoPath === Deno.execPath()) {
    options = ["--frozen"];
    entry = `supabase/functions/${name}/index.ts`;
  }

  return {
    name: name.replace("billing-", ""),
    command: denoPath,
    args: [
      "serve",
      ...(watch ? ["--watch", "--no-clear-screen"] : ["--quiet"]),
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      ...options,
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      entry,
    ],
    // The other lines of the output have no colours either.
    env: { ...toolEnvironment(), NO_COLOR: "1", ...env },
    cwd: PROJECT,
    // `deno serve` listens once the module is loaded.
    isReady: () => isListening(port),
    failure: /^Watcher Process (?:failed|finished)/,
    stopSignal: "SIGINT", // while it watches, Deno ignores SIGTERM
  };
}

export function platformEnvironment(
  { apiUrl, dbUrl, keys }: { apiUrl: string; dbUrl: string; keys: LocalKeys },
): Environment {
  return {
    SUPABASE_URL: apiUrl,
    SUPABASE_DB_URL: dbUrl,
    SUPABASE_PUBLISHABLE_KEYS: JSON.stringify({ default: keys.publishable }),
    SUPABASE_SECRET_KEYS: JSON.stringify({ default: keys.secret }),
    SUPABASE_ANON_KEY: keys.anon,
    SUPABASE_SERVICE_ROLE_KEY: keys.serviceRole,
  };
}
