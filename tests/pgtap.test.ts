/**
 * Every `*.test.sql` of supabase/tests, and the test in docs/handlers.md with the
 * page's handlers, on a database that was migrated under the default privileges of
 * today's Supabase projects. Those that say what is refused run also on one that was
 * migrated under those of projects made before 30 October 2026, which grant more.
 */
import { assert, assertEquals } from "@std/assert";
import postgres from "postgres";
import { createCommand } from "../scripts/common/create_command.ts";
import { REPOSITORY } from "../scripts/common/how_started.ts";
import { handlersPage } from "./support/docs.ts";
import { installSupabaseExtensions } from "./support/supabase_extensions.ts";
import { setting } from "./support/test_environment.ts";

const FOLDER = new URL("../supabase/tests/", import.meta.url);
const SHARE = setting("TEST_PG_SHARE_DIR");
/** pgTAP, in folders as they are below the server's own. */
const ARCHIVE =
  `${REPOSITORY}/node_modules/@electric-sql/pglite-pgtap/dist/pgtap.tar.gz`;

const DATABASES = {
  "new default privileges": setting("TEST_DATABASE_URL"),
  "old default privileges": setting("TEST_LEGACY_DATABASE_URL"),
};

const REFUSALS = /^(access|features|privileges)\.test\.sql$/;

const files = [...Deno.readDirSync(FOLDER)]
  .map(({ name }) => name)
  .filter((name) => name.endsWith(".test.sql"))
  .sort();
const { handlers, test } = handlersPage();
const tests = {
  "docs/handlers.md": ["begin;", ...handlers, test].join("\n"),
  ...Object.fromEntries(
    files.map((name) => [name, Deno.readTextFileSync(new URL(name, FOLDER))]),
  ),
};

const { success } = await createCommand("tar", {
  args: ["-xzf", ARCHIVE, "--no-same-owner", "-C", `${SHARE}/../..`],
}).output();
assert(success, "pgTAP is not unpacked");
let extensions: AsyncDisposable;
Deno.test.beforeAll(async () => {
  extensions = await installSupabaseExtensions(SHARE);
});
// The tests after these want a plain Postgres.
Deno.test.afterAll(async () => await extensions[Symbol.asyncDispose]());

for (const [privileges, url] of Object.entries(DATABASES)) {
  const isOld = privileges === "old default privileges";
  for (const [file, text] of Object.entries(tests)) {
    if (isOld && !REFUSALS.test(file)) continue;
    Deno.test(`${file} passes under the ${privileges}`, async () => {
      const lines = await runTap(url, text);
      assertEquals(lines.filter((line) => /^(not ok|#)/.test(line)), []);
      const ran = lines.filter((line) => /^ok \d+/.test(line));
      assertEquals(lines.filter((line) => /^1\.\./.test(line)), [
        `1..${ran.length}`,
      ]);
    });
  }
}

Deno.test("supabase/tests has tests to run", () => {
  assertEquals(files.includes("privileges.test.sql"), true);
});

/**
 * Runs a pgTAP test, which begins a transaction and rolls it back.
 *
 * @returns the TAP lines, such as `ok 1 - ...` and `# Failed test ...`
 * @throws {Error} With Postgres' message, and the line in the text if there is one
 */
async function runTap(url: string, text: string): Promise<string[]> {
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    await sql`create extension if not exists pgtap with schema extensions`;
    const results = await sql.unsafe(text).simple();
    const rows = results.flat() as Record<string, unknown>[];
    return rows.flatMap((row) => String(Object.values(row)[0]).split("\n"));
  } catch (cause) {
    if (!(cause instanceof postgres.PostgresError)) throw cause;
    const { position, message, code, where = "" } = cause;
    const line = text.slice(0, Number(position ?? 0)).split("\n").length;
    throw new Error(`Line ${line}: ${message} (${code})\n${where}`, { cause });
  } finally {
    await sql.end();
  }
}
