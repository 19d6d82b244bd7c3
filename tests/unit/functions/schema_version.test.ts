import { assertEquals } from "@std/assert";
import {
  SCHEMA_VERSION,
  watchVersion,
} from "../../../supabase/functions/_shared/billing/database/schema_version.ts";

Deno.test("watchVersion() logs once that the database is newer, or older", async () => {
  let headers: HeadersInit = {};
  const levels: string[] = [];
  const watched = watchVersion({
    fetch: () => Promise.resolve(new Response("", { headers })),
    log: (level) => levels.push(level),
  });

  for (const ahead of [0, 1, 1, 0, -1]) {
    headers = { "billing-schema-version": `${SCHEMA_VERSION + ahead}` };
    await watched("");
    headers = {};
    await watched("");
  }
  assertEquals(levels, ["warn", "error"]);
});

Deno.test("each migration has another version", () => {
  const migrations = [...Deno.readDirSync("supabase/migrations")];
  assertEquals(SCHEMA_VERSION, migrations.length);
});
