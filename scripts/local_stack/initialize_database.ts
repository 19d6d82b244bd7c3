import { join } from "node:path";
import { existsSync } from "node:fs";
import { POSTGRES_ENV, type PostgresPlace } from "./postgres.ts";
import { LOCAL_PASSWORD } from "./roles.ts";
import { runTool } from "../common/run_tool.ts";

/**
 * Creates an empty database cluster with the superuser `supabase_admin`, if
 * there is none yet.
 */
export async function initializeDatabase(
  place: PostgresPlace,
  signal?: AbortSignal,
): Promise<void> {
  if (existsSync(place.data)) return;
  // Renamed when complete, so that an incomplete one is never used.
  const unfinished = `${place.data}.new`;
  const passwordFile = `${place.data}.password`;
  if (existsSync(unfinished)) {
    await Deno.remove(unfinished, { recursive: true });
  }
  await Deno.mkdir(unfinished, { mode: 0o700 });
  await Deno.writeTextFile(passwordFile, LOCAL_PASSWORD);
  if (place.user) {
    await Deno.chown(unfinished, place.user.uid, place.user.gid);
  }
  await runTool({
    purpose: "create the database",
    command: join(place.binaries, "bin", "initdb"),
    args: [
      `--pgdata=${unfinished}`,
      "--username=supabase_admin",
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      // Postgres's own C.UTF-8, which is the same on every platform.
      "--locale=C",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
    ],
    env: POSTGRES_ENV,
    cwd: place.binaries,
    ...(place.user && { user: place.user }),
  }, signal);
  await Deno.remove(passwordFile);
  await Deno.rename(unfinished, place.data);
}
