/**
 * Rows that another session has locked or changes: who records, claims,
 * settles or requests leaves them for later, at once, and does the rest. And what
 * two sessions do with one subscription: one comes after the other, and sees it.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { ISql } from "postgres";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventually } from "../support/hang_limit.ts";
import { emptyTables, storedEvent } from "../support/tables.ts";
import { failureOf } from "../support/queues.ts";
import {
  apply,
  creation,
  file,
  type Lock,
  lockFailures,
  lockLedger,
  sql,
  waitsForLock,
  whileHeld,
  type WireEvent,
  withGate,
} from "./calls.ts";

/** One run of the worker has both queues. */
const LEASE = crypto.randomUUID();

Deno.test.beforeEach(() => emptyTables(sql));

let occurred = Date.parse("2027-01-15T08:00:00Z");

/** What is stored of a failure. */
interface Failed {
  readonly error_code?: string;
  readonly error?: string;
  readonly kind?: string;
  readonly customer_id?: string;
  readonly account_id?: string;
}

/** Files the failure of an event that occurred after all before it. */
async function filed(
  subscription = uniqueId("sub"),
  failed: Failed = {},
  { id = uniqueId("evt"), via = sql as ISql } = {},
): Promise<string> {
  await via`
    select public.billing_record_failed_event(
      'a', ${id}, '{}', 'text', ${failed.error_code ?? "x"},
      ${failed.error ?? "x"}, p_kind => ${failed.kind ?? "update"},
      p_subscription_id => ${subscription},
      p_customer_id => ${failed.customer_id ?? null},
      p_account_id => ${failed.account_id ?? null},
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
  failed: Failed = {},
  via: ISql = sql,
): Promise<number> {
  const results = ids.map((event_id) => (
    { provider: "a", event_id, outcome, ...failed }
  ));
  const [row] = await via`
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

Deno.test("a row that changes meanwhile is requested and settled all the same", async () => {
  const id = await filed();
  await changedInBetween(id, retryAll);
  assert(await isRequested(id));
  await claim();
  await changedInBetween(id, () => settle([id], "failed"));
  assert(!await isRequested(id));
});

Deno.test("a locked failure is counted by retry_failed_events()", async () => {
  const [locked] = [await filed(), await filed()] as const;
  await whileHeld(lockFailures(locked), async () => {
    assertMatch(
      await retryAll(),
      /^Somebody else has locked 1 of them: run this again\. Retry requested: 1\./,
    );
  });
  assertMatch(await retryAll(), /^Retry requested: 2\./);
});

Deno.test("a locked notification is due again, and the rest of its batch is settled", async () => {
  await sql`
    insert into billing.notifications (provider, event_id, account_id, subscription_id)
    select 'a', 'evt_' || i, 'acc_1', 'sub_1' from generate_series(1, 3) as i`;
  const claimed = () =>
    sql<{ id: string; attempts: number }[]>`
      select claimed.id, claimed.attempts
      from public.billing_claim_notifications(${LEASE}, 3, 'host') as one,
        jsonb_populate_record(null::billing.notifications, one) as claimed`;
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
  assertEquals([...await claimed()], [{ id: locked!.id, attempts: 2 }]);
});

/**
 * Has two transactions meet: the first is committed once the second waits for it, or
 * is over because it does not.
 */
async function meet(first: Lock, second: Lock): Promise<void> {
  const { met } = await whileHeld(first, async () => {
    let isOver = false;
    // On a busy machine it may wait for too long, and is called again as in life.
    const met = sql.begin(second).catch(() => sql.begin(second))
      .finally(() => isOver = true);
    await eventually(async () => {
      const waiting = await sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      return isOver || waiting.length > 0;
    });
    return { met };
  });
  await met;
}

/** Applies a creation, or what differs from it. */
function applied(fields: Partial<WireEvent>): Lock {
  return async (via) => {
    const said = await apply([creation(fields)], via);
    assert(!said[0]?.startsWith("failed"), `${said}`);
  };
}

/** Adds a customer. What waits for one is retried by a trigger. */
function customerAdded(customer_id: string, account_id = "acc_1"): Lock {
  return async (via) => {
    await via`
      insert into billing.customers (provider, customer_id, account_id)
      values ('a', ${customer_id}, ${account_id})`;
    await via`set constraints all immediate`;
  };
}

const [own] = await sql<{ error: string }[]>`
  select billing.lacks_account() as error`;

/** What a failure lacks, and who brings it, by the ID of its subscription or customer. */
const LACKED: Record<string, readonly [Failed, (id: string) => Lock]> = {
  "a creation": [
    { error_code: "subscription_unknown" },
    (subscription_id) => applied({ subscription_id }),
  ],
  "an account": [
    { error_code: "event_invalid", kind: "creation", ...own },
    customerAdded,
  ],
};

for (const [what, [lack, brought]] of Object.entries(LACKED)) {
  for (const isStored of [true, false]) {
    const how = isStored ? "stored" : "settled";
    for (const order of ["before", "after"]) {
      Deno.test(`a failure that lacks ${what}, ${how} just ${order} that is there, is retried`, async () => {
        const subscription = uniqueId("sub");
        const id = uniqueId("evt");
        const failed = { ...lack, customer_id: subscription };
        if (!isStored) {
          await filed(subscription, {}, { id });
          await retryAll();
          await claim();
        }
        const failure: Lock = (via) =>
          isStored
            ? filed(subscription, failed, { id, via })
            : settle([id], "failed", failed, via);
        await (order === "before"
          ? meet(failure, brought(subscription))
          : meet(brought(subscription), failure));
        assert(await isRequested(id));
      });
    }
  }
}

type OfAccount = (id: string, account_id: string) => Lock;

/** By a failure, so that there is no record whose row would be locked. */
const failureOfAccount: OfAccount = (id, account_id) => (via) =>
  filed(id, { account_id, customer_id: id }, { via });
const checkout: OfAccount = (customer_id, account_id) =>
  applied({ kind: "checkout", account_id, report: { customer_id } });

/** How an account is known, and its event; subscription and customer have one ID. */
const OF_ACCOUNT: Record<string, readonly [OfAccount, OfAccount]> = {
  "creation that is applied": [
    failureOfAccount,
    (subscription_id, account_id) => applied({ subscription_id, account_id }),
  ],
  "failure that is stored": [
    failureOfAccount,
    (subscription) => (via) => filed(subscription, {}, { via }),
  ],
  "first checkout that is applied": [failureOfAccount, checkout],
  "later checkout that is applied": [customerAdded, checkout],
};

for (const [what, [known, event]] of Object.entries(OF_ACCOUNT)) {
  for (const order of ["before", "after"]) {
    Deno.test(`nothing of an account is left by a ${what} just ${order} it is erased`, async () => {
      const ids = [uniqueId("id"), uniqueId("acc")] as const;
      const [id, account] = ids;
      await sql.begin(known(...ids));
      const erase: Lock = (via) =>
        via`select billing.erase_account(${account}, force => true)`;
      await (order === "before"
        ? meet(event(...ids), erase)
        : meet(erase, event(...ids)));
      const report = { customer_id: id };
      const later = creation({ subscription_id: id, report });
      assertEquals(await apply([later]), ["erased"]);
      await filed(id, { customer_id: id });
      const left = await sql`
        select id from billing.subscriptions where id = ${id}
        union all
        select event_id from billing.failed_events where subscription_id = ${id}
        union all
        select customer_id from billing.customers where customer_id = ${id}`;
      assertEquals([...left], []);
    });
  }
}

Deno.test("a run that is asked for while the one before it ends is not lost", async () => {
  const [ends, asks] = [crypto.randomUUID(), crypto.randomUUID()];
  const holds = (via: ISql, run: string) =>
    via<{ held: boolean }[]>`
      select billing.hold_lease('retries', ${run}) as held`;
  await holds(sql, ends);
  const { ended } = await whileHeld(async (via) => {
    assertEquals([...await holds(via, asks)], [{ held: false }]);
  }, async () => {
    const ended = sql`
      select public.billing_release_lease('retries', ${ends}, false) as goes_on`
      .execute();
    await waitsForLock("billing_release_lease");
    return { ended };
  });
  assertEquals([...await ended], [{ goes_on: true }]);
  // And the other way round: who asks while it ends has the queue.
  const { asked } = await whileHeld(
    (via) =>
      via`select public.billing_release_lease('retries', ${ends}, false)`,
    async () => {
      const asked = holds(sql, asks).execute();
      await waitsForLock("hold_lease");
      return { asked };
    },
  );
  assertEquals([...await asked], [{ held: true }]);
});
