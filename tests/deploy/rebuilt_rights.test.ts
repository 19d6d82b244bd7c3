/**
 * In a project with the default privileges from before 30 October 2026, a database
 * that is rebuilt from a squashed migration or from a dump grants everything in
 * schema public to everybody. The receiver's windows and functions are no use to
 * them all the same, because they may not use schema billing.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { signToken } from "../../scripts/common/keys.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { functionRequests, relationRequests } from "../support/api_requests.ts";
import {
  createDatabase,
  LEGACY_DEFAULT_PRIVILEGES_SQL,
  migrate,
} from "../support/databases.ts";
import { dumpSchema } from "../support/dump_schema.ts";
import { post } from "../support/send.ts";
import { startPostgrest } from "../support/stacks.ts";
import { setting } from "../support/test_environment.ts";

Deno.test("rebuilt under the default privileges of older projects, nothing is open to anon and authenticated", async () => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const original = await createDatabase(port, { name: "to_be_dumped" });
  await migrate(original.url);
  const { url } = await createDatabase(port, {
    name: "rebuilt_rights",
    sqlBefore: LEGACY_DEFAULT_PRIVILEGES_SQL,
  });
  const dump = await withDatabase(original.url, dumpSchema);
  const requests = await withDatabase(url, async (sql) => {
    await sql.unsafe(dump.join("\n")).simple();
    // Whatever the dump says of these two.
    await sql`grant all on all tables in schema public to anon, authenticated`;
    await sql`grant all on all functions in schema public to anon, authenticated`;
    await sql`set search_path to default`;
    return [...await relationRequests(sql), ...await functionRequests(sql)];
  });
  assert(requests.length > 50, `${requests.length} requests`);
  await using rest = await startPostgrest(url);
  for (const role of ["anon", "authenticated", "service_role"]) {
    const exp = Math.floor(Date.now() / 1000) + 600;
    const headers = {
      authorization: `Bearer ${await signToken({ role, exp })}`,
      "content-type": "application/json",
    };
    const open: string[] = [];
    for (const { method, path, body = null, refusedWith } of requests) {
      // The same database serves the receiver.
      if (role === "service_role" && path !== "/billing_health") continue;
      const answer = await post(rest.url + path, { method, headers, body });
      const { code } = JSON.parse(answer.body || "{}");
      if (code !== refusedWith) open.push(`${method} ${path}`);
    }
    const expected = role === "service_role" ? ["GET /billing_health"] : [];
    assertEquals(open, expected, role);
  }
});
