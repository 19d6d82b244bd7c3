/**
 * `deno task lint:db`: plpgsql_check over the functions in Postgres, by
 * `supabase db lint`, on a server that is made for it and removed again.
 *
 * plpgsql_check is not in the embedded Postgres. Debian packages it for its
 * own, whose version is another than Supabase's, which is why this is no part
 * of `deno task test`.
 *
 * @module
 */
import { join } from "node:path";
import postgres from "postgres";
import { databaseUrls, setUpServer } from "../local_stack/databases.ts";
import { applyMigrations } from "../local_stack/migrations.ts";
import {
  databaseUser,
  initializeDatabase,
  postgresService,
} from "../local_stack/postgres.ts";
import { existsSync } from "node:fs";
import { createService } from "../local_stack/service.ts";
import { runSupabaseCli } from "../common/supabase_cli.ts";
import { freePort } from "../../tests/support/free_port.ts";

const DEBIAN_POSTGRES = "/usr/lib/postgresql/15";

/** Stand-ins for the extensions of Supabase's Postgres that functions name. */
const EXTENSIONS = new URL("../../tests/support/extensions/", import.meta.url);

if (import.meta.main) {
  await lintDatabase().catch((error) => {
    console.error(error.message);
    Deno.exit(1);
  });
}

async function lintDatabase(): Promise<void> {
  if (!existsSync(`${DEBIAN_POSTGRES}/lib/plpgsql_check.so`)) {
    throw new Error(
      `Cannot lint the database: plpgsql_check is not in ${DEBIAN_POSTGRES}. On Debian 12: apt-get install postgresql-15-plpgsql-check`,
    );
  }
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-lint-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755); // Postgres may run as another account

  const user = await databaseUser();
  const data = join(folder, "database");
  const place = { binaries: DEBIAN_POSTGRES, data, user };
  await initializeDatabase(place, { locale: ["--locale=C.UTF-8"] });

  const port = freePort();
  const server = createService(postgresService(place, { port, fsync: false }), {
    onLog: () => {},
    onUnexpectedEnd: console.error,
  });
  opened.defer(server.stop);
  await server.start();
  await setUpServer(port);

  const { url, adminUrl } = databaseUrls(port);
  await applyMigrations(url, { cliHome: folder });
  const sql = postgres(adminUrl, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());
  // Only a superuser may; the CLI's own attempt finds it there then.
  await sql`create extension plpgsql_check with schema extensions`;
  await sql`create schema vault`;
  await sql`create table auth.users (id uuid, email text)`;
  for (const { name } of Deno.readDirSync(EXTENSIONS)) {
    if (name.endsWith(".sql")) {
      await sql.file(new URL(name, EXTENSIONS).pathname);
    }
  }
  await runSupabaseCli([
    "db",
    "lint",
    `--remote=${url}?sslmode=disable`,
    "--schema=billing,public",
    "--level=warning",
    "--fail-on=warning",
  ], { purpose: "call the functions in Postgres clean", home: folder });
  console.log("Nothing to complain of");
}
