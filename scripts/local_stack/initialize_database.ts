import { join } from "node:path";
import { existsSync } from "node:fs";
import { POSTGRES_ENV, type PostgresPlace } from "./postgres.ts";
import { LOCAL_PASSWORD } from "./roles.ts";
import { runTool } from "../common/run_tool.ts";

/**
 * Makes an empty database cluster, where there is none yet, whose superuser is
 * `supabase_admin`.
 *
 * @returns whether it made one
 */
export async function initializeDatabase(
  place: PostgresPlace,
  signal?: AbortSignal,
): Promise<boolean> {
  if (existsSync(place.data)) return false;
  // Renamed when complete, so that one that was cut short is never used.
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
    purpose: "make the database",
    command: join(place.binaries, "bin", "initdb"),
    args: [
      `--pgdata=${unfinished}`,
      "--username=supabase_admin",
      `--pwfile=${passwordFile}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      // C.UTF-8 of Postgres's own, which is the same on every platform.
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
  return true;
}
