import { initializeDatabase } from "../../scripts/local_stack/postgres.ts";
import {
  databaseUser,
  postgresService,
} from "../../scripts/local_stack/postgres.ts";
import { setUpServer } from "../../scripts/local_stack/databases.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { freePort } from "../support/free_port.ts";
import { setting } from "../support/test_environment.ts";

/** A Postgres with Supabase's roles and nothing else. */
export interface EmptyServer extends AsyncDisposable {
  readonly port: number;
}

/** Starts a server whose database `postgres` has had no migration. */
export async function startEmptyServer(): Promise<EmptyServer> {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-server-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755); // Postgres may run as another account
  const place = {
    binaries: setting("TEST_PG_SHARE_DIR").replace("/share/postgresql", ""),
    data: `${folder}/database`,
    user: await databaseUser(),
  };
  await initializeDatabase(place);
  const port = freePort();
  const server = createService(postgresService(place, { port, fsync: false }), {
    onLog: () => {},
    onUnexpectedEnd: console.error,
  });
  opened.defer(server.stop);
  await server.start();
  await setUpServer(port);

  const owned = opened.move();
  return { port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
