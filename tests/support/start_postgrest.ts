import { postgrestService } from "../../scripts/local_stack/postgrest.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { freePort } from "./free_port.ts";

/** A PostgREST with no gateway in front of it. */
export interface Postgrest extends AsyncDisposable {
  readonly url: string;
}

/**
 * Starts a PostgREST, on free ports.
 *
 * @param databaseUrl Of any of the server's databases.
 */
export async function startPostgrest(databaseUrl: string): Promise<Postgrest> {
  const { port: db, pathname } = new URL(databaseUrl);
  const cwd = await Deno.makeTempDir();
  const ports = {
    db: Number(db),
    postgrest: freePort(),
    postgrestAdmin: freePort(),
  };
  const spec = postgrestService(cwd, ports);
  const login = new URL(spec.env["PGRST_DB_URI"] ?? "");
  login.pathname = pathname;
  const service = createService({
    ...spec,
    env: { ...spec.env, PGRST_DB_URI: login.href },
  }, {
    onLog() {},
    onUnexpectedEnd: console.error,
  });
  await service.start();
  return {
    url: `http://127.0.0.1:${ports.postgrest}`,
    [Symbol.asyncDispose]: async () => {
      await service.stop();
      await Deno.remove(cwd, { recursive: true });
    },
  };
}
