/**
 * What the console asks of PostgREST and Postgres, and a stand-in cannot answer.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import { repairPayload } from "../../scripts/console/actions.ts";
import { readFailure } from "../../scripts/console/failures.ts";
import { openProject, ProjectError } from "../../scripts/console/project.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { setting } from "../support/test_environment.ts";

const sql = postgres(setting("TEST_DATABASE_URL"), { max: 1, onnotice() {} });
Deno.test.afterAll(() => sql.end());

Deno.test("of two repairs of what was read before, only one is saved", async () => {
  const { secret } = await localKeys();
  const project = openProject(
    { projectUrl: setting("TEST_API_URL"), secretKey: secret },
    { fetch },
  );
  const eventId = uniqueId("evt");
  const key = { provider: "a", eventId };
  await sql`
    insert into public.failed_events
      (provider, event_id, payload, payload_encoding, error_code, error)
    values ('a', ${eventId}, '{"n": 0}', 'json', 'event_invalid', 'of a test')`;
  const payload = async () =>
    (await sql`
      select payload::text from public.failed_events
      where event_id = ${eventId}`)[0]?.["payload"];
  for (const n of [1, 3]) { // the second time, it has been repaired before
    const failure = await readFailure(project, key);
    const { version } = failure!;
    await repairPayload(project, key, { json: `{"n": ${n}}`, version });
    await assertRejects(
      () => repairPayload(project, key, { json: `{"n": ${n + 1}}`, version }),
      ProjectError,
      "changed at the same moment",
    );
    assertEquals(await payload(), `{"n": ${n}}`);
  }
});
