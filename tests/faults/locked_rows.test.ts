/**
 * Rows that another session has locked or changes: whoever records, claims,
 * settles or requests leaves them for later, at once, and does the rest.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { TransactionSql } from "postgres";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { emptyTables } from "../support/tables.ts";
import { failureOf } from "../support/triage.ts";
import {
  apply,
  creation,
  file,
  lockFailures,
  lockLedger,
  sql,
  waitsForLock,
  whileHeld,
} from "./calls.ts";

/** One run of the worker has both queues. */
const LEASE = crypto.randomUUID();

Deno.test.beforeEach(() => emptyTables(sql));
Deno.test.afterAll(async () => {
  await emptyTables(sql);
  await sql.end();
});

async function claim(limit = 10): Promise<string[]> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from public.billing_claim_failed_events(${LEASE}, ${limit})`;
  return rows.map(({ event_id }) => event_id);
}

/** Settles retries with an outcome; returns how many have it now. */
async function settle(
  ids: readonly string[],
  outcome: string,
  caller: TransactionSql | typeof sql = sql,
): Promise<number> {
  const results = ids.map((event_id) => ({ provider: "a", event_id, outcome }));
  const [row] = await caller`
    select public.billing_settle_failed_events(
      ${LEASE}, ${sql.json(results)}
    ) as settled`;
  return row?.["settled"];
}

async function retryAll(caller: TransactionSql | typeof sql = sql) {
  const [row] = await caller`select billing.retry_failed_events() as answer`;
  return String(row?.["answer"]);
}

Deno.test("a failure whose row is locked is not counted, and leaves nothing in the ledger", async () => {
  const id = uniqueId("evt");
  await file(id);
  const began = performance.now();
  const error = await whileHeld(
    lockFailures(id),
    () => assertRejects(() => file(id)),
  );
  // Many of them must not keep all connections of the API.
  assertEquals(performance.now() - began < 400, true);
  assertEquals((error as { code?: string }).code, "55P03");
  assertEquals((await failureOf(sql, id)).attempts, 1);
  const ledger = await sql`
    select from billing.processed_events where event_id = ${id}`;
  assertEquals(ledger.length, 0);
});

for (
  const [what, outcome, lock] of [
    ["row of failed_events", "ignored", lockFailures],
    ["row of the ledger", "duplicate", lockLedger],
  ] as const
) {
  Deno.test(`a retry whose ${what} is locked stays requested, and the others are settled`, async () => {
    const ids = [uniqueId("evt"), uniqueId("evt")] as const;
    await file(...ids);
    await sql`
      insert into billing.processed_events (provider, event_id, type)
      values ('a', ${ids[0]}, 'x')`;
    await retryAll();
    await claim();
    assertEquals(await whileHeld(lock(ids[0]), () => settle(ids, outcome)), 1);
    const left = await failureOf(sql, ids[0]);
    assertEquals([left.resolved_at, left.retry_lease_id], [null, LEASE]);
    assert(left.retry_requested_at !== null);
    assertEquals((await failureOf(sql, ids[1])).resolution, outcome);
  });
}

let occurred = Date.parse("2027-01-15T08:00:00Z");

/** Files events of one subscription that occurred in this order. */
async function fileInOrder(...eventIds: string[]): Promise<void> {
  const subscription = uniqueId("sub");
  for (const id of eventIds) {
    await sql`
      select public.billing_record_failed_event(
        'a', ${id}, '{}', 'text', 'x', 'x', p_kind => 'update',
        p_subscription_id => ${subscription},
        p_occurred_at => ${new Date(occurred += 1_000)}
      )`;
  }
}

Deno.test("a locked retry holds its subscription back, and nothing else", async () => {
  const ids = ["before", "locked", "after", "last"].map((name) =>
    uniqueId(`evt_${name}`)
  );
  await fileInOrder(...ids);
  const others = ["a", "b", "c"].map((name) => uniqueId(`evt_${name}`));
  for (const other of others) await fileInOrder(other);
  await retryAll();
  // What is held back must not use up the limit.
  const first = await whileHeld(lockFailures(ids[1]!), () => claim(3));
  assertEquals(first, [ids[0], ...others.slice(0, 2)]);
  await settle(first, "ignored");
  assertEquals(await claim(), [...ids.slice(1), others[2]]);
});

/**
 * While a statement that updates failed_events has its snapshot, and no row
 * yet, somebody else's update of a row is committed.
 */
async function changedInBetween(
  eventId: string,
  call: (caller: TransactionSql) => Promise<unknown>,
): Promise<void> {
  await sql.unsafe(`
    create function wait_for_change() returns trigger language plpgsql as $$
    begin
      if current_setting('tests.waits', true) = 'on' then
        set local lock_timeout = 0;
        perform pg_advisory_xact_lock(7);
      end if;
      return null;
    end $$;
    create trigger wait_for_change before update on billing.failed_events
    for each statement execute function wait_for_change();`);
  try {
    const called = Promise.withResolvers<unknown>();
    await sql.begin(async (holder) => {
      await holder`select pg_advisory_xact_lock(7)`;
      sql.begin(async (caller) => {
        await caller`set local tests.waits = 'on'`;
        await call(caller);
      }).then(called.resolve, called.reject);
      await waitsForLock("billing");
      await lockFailures(eventId)(sql);
    });
    await called.promise;
  } finally {
    await sql.unsafe(`
      drop trigger wait_for_change on billing.failed_events;
      drop function wait_for_change();`);
  }
}

Deno.test("a duplicate resolves its failure, also one that changes meanwhile", async () => {
  const event = creation();
  await apply([event]);
  await sql`
    insert into billing.failed_events (
      provider, event_id, payload, payload_encoding, error_code, error
    ) values ('a', ${event.event_id}, '{}', 'json', 'x', 'x')`;
  await changedInBetween(event.event_id, (caller) => apply([event], caller));
  assertEquals((await failureOf(sql, event.event_id)).resolution, "duplicate");
});

Deno.test("a retry is settled, also on a row that changes meanwhile", async () => {
  const id = uniqueId("evt");
  await file(id);
  await retryAll();
  await claim();
  await changedInBetween(id, (caller) => settle([id], "ignored", caller));
  assertEquals((await failureOf(sql, id)).resolution, "ignored");
});

Deno.test("retry_failed_events() asks for a row that changes meanwhile", async () => {
  const id = uniqueId("evt");
  await file(id);
  await changedInBetween(id, (caller) => retryAll(caller));
  assert((await failureOf(sql, id)).retry_requested_at !== null);
});

Deno.test("retry_failed_events() requests retries of the rows that are not locked, and counts the others", async () => {
  const [locked, free] = [uniqueId("evt"), uniqueId("evt")] as const;
  await file(locked, free);
  assertMatch(
    await whileHeld(lockFailures(locked), () => retryAll()),
    /^Somebody else has locked 1 of them: run this again\. Retry requested: 1\./,
  );
  assertEquals((await failureOf(sql, locked)).retry_requested_at, null);
  assertMatch(await retryAll(), /^Retry requested: 2\./);
});

Deno.test("two people who repair an event each and retry all do not deadlock", async () => {
  const ids = [uniqueId("evt"), uniqueId("evt"), uniqueId("evt")] as const;
  await file(...ids);
  const locked = [0, 1].map(() => Promise.withResolvers<void>());
  const both = Promise.all(locked.map(({ promise }) => promise));
  await Promise.all([0, 1].map((person) =>
    sql.begin(async (editor) => {
      await lockFailures(ids[person]!)(editor);
      locked[person]!.resolve();
      await both;
      await retryAll(editor);
    })
  ));
  for (const id of ids) {
    assert((await failureOf(sql, id)).retry_requested_at !== null);
  }
});

Deno.test("a locked notification is due again, and the rest of its batch is settled", async () => {
  const event = uniqueId("evt");
  await sql`
    insert into billing.notifications (provider, event_id, account_id, subscription_id)
    select 'a', ${event} || i, 'acc_1', 'sub_1' from generate_series(1, 3) as i`;
  const claimed = await sql<{ id: string }[]>`
    select id from public.billing_claim_notifications(${LEASE}, 3, 'host')`;
  const results = claimed.map(({ id }) => ({ id, result: "sent" }));
  const [row] = await whileHeld(
    (holder) =>
      holder`
        update billing.notifications set last_error = 'looked at'
        where id = ${claimed[0]!.id}`,
    () =>
      sql`
        select public.billing_settle_notifications(
          ${LEASE}, 'host', ${sql.json(results)}
        ) as settled`,
  );
  assertEquals(row?.["settled"], 2);
  // It is due again a minute after its claim.
  await sql`
    update billing.notifications set next_attempt_at = 'epoch'
    where id = ${claimed[0]!.id} and next_attempt_at > now()`;
  const [again] = await sql`
    select id, attempt from public.billing_claim_notifications(${LEASE}, 1, 'host')`;
  assertEquals({ ...again }, { id: claimed[0]!.id, attempt: 2 });
});
