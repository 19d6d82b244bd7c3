/**
 * What the console asks of PostgREST and Postgres, and a stand-in cannot answer.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mock } from "node:test";
import postgres from "postgres";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { readFailure } from "../../scripts/console/failures.tsx";
import { sendAgain } from "../../scripts/console/notifications.tsx";
import { hashOf, repair } from "../../scripts/console/payload.tsx";
import { openProject, type Project } from "../../scripts/console/project.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { setting } from "../support/test_environment.ts";

const sql = postgres(setting("TEST_DATABASE_URL"), { max: 1, onnotice() {} });
Deno.test.afterAll(() => sql.end());

async function openOwnProject(): Promise<Project> {
  const { secret } = await localKeys();
  const access = { projectUrl: setting("TEST_API_URL"), secretKey: secret };
  return openProject(access, { fetch });
}

Deno.test("of two repairs of what was read before, only one is saved", async () => {
  const project = await openOwnProject();
  const event = uniqueId("evt");
  await sql`
    insert into billing.failed_events
      (provider, event_id, payload, payload_encoding, error_code, error)
    values ('a', ${event}, '{}', 'json', 'event_invalid', 'of a test')`;
  const save = (failure: typeof read, n: number) =>
    repair(project, failure, {
      text:
        `{"id": "${event}", "type": "customer.subscription.deleted", "data": {"object": {"id": "sub_${event}"}}, "n": ${n}}`,
      hash: hashOf(failure.payload),
    });
  let read = (await readFailure(project, { provider: "a", event }))!;
  for (const n of [1, 3]) { // the second time, it has been repaired before
    const { faults, problem = "" } = await save(read, n);
    assertEquals(faults, []);
    // The database has tried it, and that left nothing.
    assertStringIncludes(problem, "subscription_unknown: No subscription");
    const { faults: [fault = ""] } = await save(read, n + 1);
    assertStringIncludes(fault, "changed at the same moment");
    read = (await readFailure(project, { provider: "a", event }))!;
    assertStringIncludes(read.payload ?? "", `"n": ${n},`);
  }
});

Deno.test("a notification that is sent again is due at once, whatever this machine's clock shows", async () => {
  const project = await openOwnProject();
  const [row] = await sql<[{ id: string }]>`
    insert into billing.notifications
      (provider, event_id, account_id, subscription_id, status, attempts)
    values ('a', ${uniqueId("evt")}, 'acc_7', 'sub_7', 'dead', 10)
    returning id`;
  mock.timers.enable({ apis: ["Date"], now: Date.now() + 3_600_000 });
  try {
    assertEquals(await project.update(sendAgain(row.id)), 1);
  } finally {
    mock.timers.reset();
  }
  const [sent] = await sql`
    select
      status <> 'dead' as is_open,
      next_attempt_at,
      -- A worker that another test woke may have claimed it already.
      attempts > 0 or next_attempt_at <= now() as is_due
    from billing.notifications where id = ${row.id}`;
  assert(sent?.["is_open"]);
  assert(sent["is_due"], `${sent["next_attempt_at"]}`);
});
