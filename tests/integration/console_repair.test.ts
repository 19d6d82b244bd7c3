/**
 * What the console asks of PostgREST and Postgres, and a stand-in cannot answer.
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

/** @param settings What its worker says. */
async function openOwnProject(settings = {}): Promise<Project> {
  const { secret } = await localKeys();
  const access = { projectUrl: setting("TEST_API_URL"), secretKey: secret };
  return openProject(access, {
    fetch: (url, init) =>
      `${url}`.includes("/functions/")
        ? Promise.resolve(Response.json({ settings }))
        : fetch(url, init),
  });
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

Deno.test("a repair is tried with the handler of its event, of which nothing is left", async () => {
  const project = await openOwnProject({ handledTypes: ["charge.refunded"] });
  const event = uniqueId("evt");
  await sql.unsafe(`
    insert into billing.failed_events
      (provider, event_id, payload, payload_encoding, error_code, error)
    values ('a', '${event}', '{}', 'json', 'apply_failed', 'of a test');
    create table public.refunds (amount bigint);
    grant insert on public.refunds to service_role;
    create function billing.on_charge_refunded(provider text, event jsonb)
    returns void language plpgsql as $$
    begin
      insert into refunds values ((event ->> 'n')::bigint);
      if (event ->> 'n')::bigint > 500 then
        raise exception 'too much: %', event ->> 'n' using errcode = 'P0042';
      end if;
    end $$`).simple();
  try {
    for (
      const [n, problem] of [
        [
          900,
          "A retry would fail now: apply_failed: billing.on_charge_refunded raised P0042: too much: 900",
        ],
        [100, undefined],
      ]
    ) {
      const failure = (await readFailure(project, { provider: "a", event }))!;
      const tried = await repair(project, failure, {
        text: `{"id": "${event}", "type": "charge.refunded", "n": ${n}}`,
        hash: hashOf(failure.payload),
      });
      assertEquals<unknown>(tried, { faults: [], ...(problem && { problem }) });
    }
    assertEquals([...await sql`table public.refunds`], []);
    const claimed = await sql`
      select from billing.processed_events where event_id = ${event}`;
    assertEquals(claimed.length, 0);
  } finally {
    await sql`drop function billing.on_charge_refunded`;
    await sql`drop table public.refunds`;
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
