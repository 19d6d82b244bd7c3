/**
 * Every `*.test.sql` of supabase/tests, on a database that was migrated under
 * the default privileges of today's Supabase projects, and on one that was
 * migrated under those of projects made before 30 October 2026. Tests of large
 * tables (`*_at_size`) run on the first only: plans do not depend on privileges.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { installPgtap, runTap, tapFaults } from "./support/pgtap.ts";
import { installSupabaseExtensions } from "./support/supabase_extensions.ts";
import { setting } from "./support/test_environment.ts";

const FOLDER = new URL("../supabase/tests/", import.meta.url);

const DATABASES = {
  "new default privileges": setting("TEST_DATABASE_URL"),
  "old default privileges": setting("TEST_LEGACY_DATABASE_URL"),
};

const files = [...Deno.readDirSync(FOLDER)]
  .map(({ name }) => name)
  .filter((name) => name.endsWith(".test.sql"))
  .sort();

await installPgtap(setting("TEST_PG_SHARE_DIR"));
let extensions: AsyncDisposable;
Deno.test.beforeAll(async () => {
  extensions = await installSupabaseExtensions(setting("TEST_PG_SHARE_DIR"));
});
// The tests after these want a plain Postgres.
Deno.test.afterAll(async () => await extensions[Symbol.asyncDispose]());

for (const [privileges, url] of Object.entries(DATABASES)) {
  const isFirst = url === DATABASES["new default privileges"];
  for (const file of files) {
    if (file.endsWith("_at_size.test.sql") && !isFirst) continue;
    Deno.test(`${file} passes under the ${privileges}`, async () => {
      assertEquals(tapFaults(await runTap(url, new URL(file, FOLDER))), []);
    });
  }
}

Deno.test("supabase/tests has tests to run", () => {
  assertEquals(files.includes("privileges.test.sql"), true);
});

Deno.test("tapFaults() finds nothing if every planned test passed", () => {
  assertEquals(tapFaults(["1..2", "ok 1 - one", "ok 2 - two"]), []);
});

Deno.test("tapFaults() reports a failed test and what is said of it", () => {
  const failed = ["not ok 1 - one", "# Failed test 1", "#   have: 2"];
  assertEquals(tapFaults(["1..1", ...failed]), failed);
});

Deno.test("tapFaults() reports tests that did not run", () => {
  assertEquals(tapFaults(["1..2", "ok 1 - one"]), [
    "2 tests were planned, and 1 ran.",
  ]);
});

Deno.test("tapFaults() reports a file that tests nothing", () => {
  assertEquals(tapFaults([]), ["No plan: pgTAP did not run."]);
});
