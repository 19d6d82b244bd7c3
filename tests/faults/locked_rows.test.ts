/**
 * Rows that another session has locked or changes: who records, claims,
 * settles or requests leaves them for later, at once, and does the rest.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { emptyTables, storedEvent } from "../support/tables.ts";
import { failureOf } from "../support/queues.ts";
import {
  apply,
  creation,
  file,
  lockFailures,
  lockLedger,
  sql,
  waitsForLock,
  whileHeld,
  withGate,
} from "./calls.ts";

/** One run of the worker has both queues. */
const LEASE = crypto.randomUUID();

Deno.test.beforeEach(() => emptyTables(sql));
Deno.test.afterAll(async () => {
  await emptyTables(sql);
  await sql.end();
});

let occurred = Date.parse("2027-01-15T08:00:00Z");

/** Files the failure of an event that occurred after all before it. */
async function filed(subscription = uniqueId("sub")): Promise<string> {
  const id = uniqueId("evt");
  await sql`
    select public.billing_record_failed_event(
      'a', ${id}, '{}', 'text', 'x', 'x', p_kind => 'update',
      p_subscription_id => ${subscription},
      p_occurred_at => ${new Date(occurred += 1_000)}
    )`;
  return id;
}

/** As if it had been applied, without an effect on its failure. */
async function markApplied(id: string): Promise<void> {
  await sql`
    insert into billing.processed_events (provider, event_id, type)
    values ('a', ${id}, 'x')`;
}

async function claim(limit = 10): Promise<string[]> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from public.billing_claim_failed_events(${LEASE}, ${limit})`;
  return rows.map(({ event_id }) => event_id);
}

/** Settles retries with an outcome; returns how many have it now. */
async function settle(
  ids: readonly string[],
  outcome: string,
): Promise<number> {
  const results = ids.map((event_id) => ({ provider: "a", event_id, outcome }));
  const [row] = await sql`
    select public.billing_settle_failed_events(
      ${LEASE}, ${sql.json(results)}
    ) as settled`;
  return row?.["settled"];
}

async function retryAll(): Promise<string> {
  const [row] = await sql`select billing.retry_failed_events() as answer`;
  return row?.["answer"];
}

async function isRequested(id: string): Promise<boolean> {
  return (await failureOf(sql, id)).retry_requested_at !== null;
}

Deno.test("a failure whose row is locked is not counted, and leaves nothing in the ledger", async () => {
  const id = await filed();
  const took: number[] = [];
  await whileHeld(lockFailures(id), async () => {
    for (let i = 0; i < 5; i++) {
      const began = performance.now();
      const error = await assertRejects(() => file(id));
      took.push(performance.now() - began);
      assertEquals((error as { code?: string }).code, "55P03");
    }
  });
  // Many of them must not keep all connections of the API.
  assert(Math.min(...took) < 400, `They took ${took} ms`);
  assertEquals((await failureOf(sql, id)).attempts, 1);
  assertEquals((await storedEvent(sql, id)).ledger, []);
});

for (
  const [what, outcome, lock] of [
    ["row of failed_events", "ignored", lockFailures],
    ["row of the ledger", "duplicate", lockLedger],
  ] as const
) {
  Deno.test(`a retry whose ${what} is locked stays requested, and the others are settled`, async () => {
    const ids = [await filed(), await filed()] as const;
    await markApplied(ids[0]);
    await retryAll();
    await claim();
    assertEquals(await whileHeld(lock(ids[0]), () => settle(ids, outcome)), 1);
    const left = await failureOf(sql, ids[0]);
    assertEquals([left.resolved_at, left.retry_lease_id], [null, LEASE]);
    assert(await isRequested(ids[0]));
    assertEquals((await failureOf(sql, ids[1])).resolution, outcome);
  });
}

Deno.test("a locked retry holds its subscription back, and nothing else", async () => {
  const own = uniqueId("sub");
  const [before, locked, after] = [
    await filed(own),
    await filed(own),
    await filed(own),
  ];
  const others = [await filed(), await filed(), await filed()];
  await retryAll();
  // What is held back must not use up the limit.
  const first = await whileHeld(lockFailures(locked), () => claim(3));
  assertEquals(first, [before, others[0], others[1]]);
  await settle(first, "ignored");
  assertEquals(await claim(), [locked, after, others[2]]);
});

/**
 * While a statement that updates failed_events has its snapshot, and no row
 * yet, somebody else's update of a row is committed.
 */
async function changedInBetween<T>(
  eventId: string,
  call: () => Promise<T>,
): Promise<T> {
  return await withGate(
    `before update on billing.failed_events for each statement
    when (current_setting('tests.passes', true) is distinct from 'on')`,
    async (open) => {
      const called = call();
      await waitsForLock("billing");
      await sql.begin(async (editor) => {
        await editor`set local tests.passes = 'on'`;
        await lockFailures(eventId)(editor);
      });
      await open();
      return await called;
    },
  );
}

Deno.test("a row that changes meanwhile is requested, settled and resolved all the same", async () => {
  const id = await filed();
  await changedInBetween(id, retryAll);
  assert(await isRequested(id));
  await claim();
  await changedInBetween(id, () => settle([id], "failed"));
  assert(!await isRequested(id));
  await markApplied(id);
  await changedInBetween(id, () => apply([creation({ event_id: id })]));
  assertEquals((await failureOf(sql, id)).resolution, "duplicate");
});

Deno.test("a locked failure is counted by retry_failed_events(), and not waited for by a duplicate", async () => {
  const [locked] = [await filed(), await filed()] as const;
  await whileHeld(lockFailures(locked), async () => {
    assertMatch(
      await retryAll(),
      /^Somebody else has locked 1 of them: run this again\. Retry requested: 1\./,
    );
    await markApplied(locked);
    assertEquals(await apply([creation({ event_id: locked })]), ["duplicate"]);
  });
  assertEquals((await failureOf(sql, locked)).resolution, null);
  assertMatch(await retryAll(), /^Retry requested: 2\./);
});

Deno.test("a locked notification is due again, and the rest of its batch is settled", async () => {
  await sql`
    insert into billing.notifications (provider, event_id, account_id, subscription_id)
    select 'a', 'evt_' || i, 'acc_1', 'sub_1' from generate_series(1, 3) as i`;
  const claimed = () =>
    sql<{ id: string; attempt: number }[]>`
      select id, attempt
      from public.billing_claim_notifications(${LEASE}, 3, 'host')`;
  const [locked, ...others] = await claimed();
  const results = [locked!, ...others].map(({ id }) => ({
    id,
    result: "sent",
  }));
  await whileHeld(
    (holder) =>
      holder`
        update billing.notifications set last_error = 'looked at'
        where id = ${locked!.id}`,
    () =>
      sql`
        select public.billing_settle_notifications(
          ${LEASE}, 'host', ${sql.json(results)}
        )`,
  );
  // It is due again a minute after its claim.
  await sql`update billing.notifications set next_attempt_at = 'epoch'`;
  assertEquals([...await claimed()], [{ id: locked!.id, attempt: 2 }]);
});
