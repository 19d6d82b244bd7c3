import { existsSync } from "node:fs";
import { join } from "node:path";
import { runTool } from "../common/run_tool.ts";
import { POSTGRES_ENV, type PostgresPlace } from "./postgres.ts";
import { LOCAL_PASSWORD } from "./roles.ts";

/** Postgres's own C.UTF-8, which is the same on every platform. */
const BUILTIN_LOCALE = [
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
];

/**
 * Creates an empty database cluster with the superuser `supabase_admin`, if
 * there is none yet.
 *
 * @param options.locale for `initdb`; versions before 17 do not know the default
 */
export async function initializeDatabase(
  place: PostgresPlace,
  { signal, locale = BUILTIN_LOCALE }: {
    readonly signal?: AbortSignal | undefined;
    readonly locale?: readonly string[];
  } = {},
): Promise<void> {
  if (existsSync(place.data)) return;
  // Renamed when complete, so that an incomplete one is never used.
  const unfinished = `${place.data}.new`;
  const passwordFile = `${place.data}.password`;
  if (existsSync(unfinished)) {
    await Deno.remove(unfinished, { recursive: true });
  }
  await Deno.mkdir(unfinished, { mode: 0o700 });
  await Deno.writeTextFile(passwordFile, LOCAL_PASSWORD, { mode: 0o600 });
  try {
    if (place.user) {
      const { uid, gid } = place.user;
      for (const path of [unfinished, passwordFile]) {
        await Deno.chown(path, uid, gid);
      }
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
        ...locale,
      ],
      env: POSTGRES_ENV,
      cwd: place.binaries,
      ...(place.user && { user: place.user }),
    }, signal);
  } finally {
    await Deno.remove(passwordFile);
  }
  await Deno.rename(unfinished, place.data);
}
