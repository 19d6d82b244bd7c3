/** What the console asks of Postgres, and a stand-in cannot answer. */
import { assertRejects, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { ProjectError } from "../../scripts/common/project_api.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { readFailure } from "../../scripts/console/failures.tsx";
import { repair } from "../../scripts/console/payload.tsx";
import { openProject } from "../../scripts/console/project.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { setting } from "../support/test_environment.ts";

const sql = postgres(setting("TEST_DATABASE_URL"), { max: 1, onnotice() {} });
Deno.test.afterAll(() => sql.end());

Deno.test("of two repairs of what was read before, only one is saved", async () => {
  const { secret } = await localKeys();
  const access = { projectUrl: setting("TEST_API_URL"), secretKey: secret };
  const project = openProject(access, { fetch });
  const event = uniqueId("evt");
  await sql`
    insert into billing.failed_events
      (provider, event_id, payload, payload_encoding, error_code, error)
    values ('a', ${event}, '{}', 'json', 'event_invalid', 'of a test')`;
  const save = (failure: typeof read, n: number) =>
    repair(project, failure, {
      text:
        `{"id": "${event}", "type": "customer.subscription.deleted", "data": {"object": {"id": "sub_${event}"}}, "n": ${n}}`,
      version: failure.version!,
    });
  let read = (await readFailure(project, { provider: "a", event }))!;
  for (const n of [1, 3]) { // the second time, it has been repaired before
    const problem = await save(read, n);
    // The database has tried it, and that left nothing.
    assertStringIncludes(problem, "subscription_unknown: No subscription");
    const again = () => save(read, n + 1);
    await assertRejects(again, ProjectError, "has changed since you opened");
    read = (await readFailure(project, { provider: "a", event }))!;
    assertStringIncludes(read.payload ?? "", `"n": ${n},`);
  }
});
