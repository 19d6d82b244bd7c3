/**
 * The pgTAP tests, on a database that was migrated under the default privileges of
 * today's Supabase projects. What is refused is also tested on one that was migrated
 * under those of projects made before 30 October 2026, which grant more.
 */
import { installPgtap, testSql } from "./support/pgtap.ts";
import { setting } from "./support/test_environment.ts";

let installed: AsyncDisposable;
Deno.test.beforeAll(async () => {
  installed = await installPgtap(setting("TEST_PG_SHARE_DIR"));
});
// The tests after these want a plain Postgres.
Deno.test.afterAll(async () => await installed[Symbol.asyncDispose]());

testSql(
  "under the new default privileges",
  () => setting("TEST_DATABASE_URL"),
);
testSql(
  "under the old default privileges",
  () => setting("TEST_LEGACY_DATABASE_URL"),
  /^privileges\.test\.sql$/,
);
