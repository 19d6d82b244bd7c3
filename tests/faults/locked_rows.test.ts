/**
 * Rows that another session has locked or changes: a call that records, claims, settles
 * or requests leaves them for later, at once, and does the rest. And what two sessions do
 * with one subscription: one comes after the other, and sees it.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { ISql } from "postgres";
import { uniqueId } from "../../scripts/events/templates.ts";
import { eventually } from "../support/hang_limit.ts";
import { emptyTables, storedEvent } from "../support/tables.ts";
import { failureOf, recordFailure } from "../support/queues.ts";
import {
  apply,
  callWhileHeld,
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

const LEASE = crypto.randomUUID();

Deno.test.beforeEach(() => emptyTables(sql));

let occurred = Date.parse("2027-01-15T08:00:00Z");

interface Failed {
  readonly error_code?: string;
  readonly error?: string;
  readonly kind?: string;
  readonly customer_id?: string;
  readonly account_id?: string;
}

/** Files the failure of an event that occurred after all before it. */
async function filed(
  subscription_id = uniqueId("sub"),
  failed: Failed = {},
  { id = uniqueId("evt"), via = sql as ISql } = {},
): Promise<string> {
  occurred += 1_000;
  await recordFailure(via, {
    event_id: id,
    kind: "update",
    subscription_id,
    occurred_at: new Date(occurred),
    ...failed,
  });
  return id;
}

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

Deno.test("a failure whose row is locked leaves no trace", async () => {
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
  const subscription = uniqueId("sub");
  const before = await filed(subscription);
  const locked = await filed(subscription);
  const after = await filed(subscription);
  const others = [await filed(), await filed(), await filed()];
  await retryAll();

  // What is held back must not use up the limit.
  const first = await whileHeld(lockFailures(locked), () => claim(3));
  assertEquals(first, [before, others[0], others[1]]);
  await settle(first, "ignored");
  assertEquals(await claim(), [locked, after, others[2]]);
});

/**
 * Makes a call that updates failed_events. While its statement has a snapshot, and no
 * row yet, another session's update of a row is committed.
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

Deno.test("a row that changes meanwhile is requested and settled", async () => {
  const id = await filed();
  await changedInBetween(id, retryAll);
  assert(await isRequested(id));

  await claim();
  await changedInBetween(id, () => settle([id], "failed"));
  assert(!await isRequested(id));
});

Deno.test("a locked failure is counted by retry_failed_events()", async () => {
  const locked = await filed();
  await filed();
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
  const batch = await claimed();
  const [locked] = batch;
  const results = batch.map(({ id }) => ({ id, result: "sent" }));

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
  let isOver = false;
  await callWhileHeld(
    first,
    // If it waits for too long, it fails, and is called again as in life.
    () =>
      eventually(() => sql.begin(second).then(() => true, () => false))
        .finally(() => isOver = true),
    () =>
      eventually(async () => {
        const waiting = await sql`
          select from pg_stat_activity
          where datname = current_database()
            -- An erasure sleeps between two looks at its locks.
            and (wait_event_type = 'Lock' or wait_event = 'PgSleep')`;
        return isOver || waiting.length > 0;
      }),
  );
}

function erasing(account: string): Lock {
  return (via) => via`select billing.erase_account(${account}, force => true)`;
}

async function eraseWhileHeld(
  lock: Lock,
  account: string,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  await callWhileHeld(lock, () => sql.begin(erasing(account)), async () => {
    await sleepsIn("erase_account");
    await meanwhile();
  });
}

async function sleepsIn(name: string): Promise<void> {
  await eventually(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where wait_event = 'PgSleep' and strpos(query, ${name}) > 0`;
    return rows.length > 0;
  });
}

/** Applies a creation with other fields; again if it is locked, as the receiver does. */
function applied(fields: Partial<WireEvent>): Lock {
  return async (via) => {
    let outcome: string | undefined;
    do {
      [outcome] = await apply([creation(fields)], via);
    } while (outcome === "failed 55P03");
    assert(!outcome?.startsWith("failed"), outcome);
    return outcome;
  };
}

function customerAdded(customer_id: string, account_id = "acc_1"): Lock {
  return async (via) => {
    await via`
      insert into billing.customers (provider, customer_id, account_id)
      values ('a', ${customer_id}, ${account_id})`;
    await via`set constraints all immediate`;
  };
}

/** What a failure lacks, and what brings it. Its subscription and its customer have one ID. */
const LACKED: Record<string, [code: string, brought: (id: string) => Lock]> = {
  "a creation": [
    "subscription_unknown",
    (subscription_id) => applied({ subscription_id }),
  ],
  "an account": [
    "account_unknown",
    (customer_id) => customerAdded(customer_id),
  ],
  "an account or a record": [
    "account_unknown",
    (subscription_id) => applied({ subscription_id, kind: "opening_update" }),
  ],
  "the account of another subscription": [
    "account_unknown",
    (customer_id) => applied({ report: reportOf(customer_id) }),
  ],
};

for (const [what, [error_code, brought]] of Object.entries(LACKED)) {
  for (const isStored of [true, false]) {
    const how = isStored ? "stored" : "settled";
    for (const order of ["before", "after"]) {
      Deno.test(`a failure that lacks ${what}, ${how} just ${order} that is there, is retried`, async () => {
        const subscription = uniqueId("sub");
        const id = uniqueId("evt");
        const failed = { error_code, customer_id: subscription };
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

Deno.test("a failure is stored while a slow checkout brings its account, and retried", async () => {
  const customer_id = uniqueId("cus");
  const slow = applied({ kind: "checkout", report: { customer_id } });
  await whileHeld(slow, async () => {
    const failed = { error_code: "account_unknown", customer_id };
    assert(await isRequested(await filed(uniqueId("sub"), failed)));
  });
});

/** Makes an account known, or applies an event of it; subscription and customer have one ID. */
type OfAccount = (id: string, account_id: string) => Lock;

const reportOf = (customer_id: string) => ({ plan_id: "plan_1", customer_id });

const record: OfAccount = (id, account_id) =>
  applied({ subscription_id: id, account_id, report: reportOf(id) });
/** Makes it known without a record, whose row would be locked. */
const failure: OfAccount = (id, account_id) => (via) =>
  filed(id, { account_id, customer_id: id }, { via });
const nothing: OfAccount = () => () => Promise.resolve();

const checkout: OfAccount = (customer_id, account_id) =>
  applied({ kind: "checkout", account_id, report: { customer_id } });
const newCreation: OfAccount = (id, account_id) =>
  applied({ subscription_id: `${id}_2`, account_id });
const newCreationWithoutAccount: OfAccount = (id) =>
  applied({
    subscription_id: `${id}_2`,
    account_id: null,
    report: reportOf(id),
  });
/** Does what billing_apply_handled_event does with a handler that grants a plan. */
const granting: OfAccount = (_, named_account) => async (via) => {
  const event = { kind: "other", subscription_id: "", account_id: null };
  if (await applied({ ...event, named_account })(via) === "applied") {
    await via`
      select billing.grant_plan(${named_account}, 'plan', reason => 'a test')`;
  }
};

const OF_ACCOUNT: Record<string, [known: OfAccount, event: OfAccount]> = {
  "creation that is applied": [
    failure,
    (subscription_id, account_id) => applied({ subscription_id, account_id }),
  ],
  "creation of a new subscription": [record, newCreation],
  "first creation": [nothing, newCreation],
  "creation that does not name it, of a customer": [
    customerAdded,
    newCreationWithoutAccount,
  ],
  "creation that does not name it, of a customer with a record": [
    record,
    newCreationWithoutAccount,
  ],
  "creation whose customer has it at the provider": [
    nothing,
    (id, fallback_account) =>
      applied({
        subscription_id: `${id}_2`,
        account_id: null,
        fallback_account,
      }),
  ],
  "update that is applied": [
    record,
    (subscription_id) =>
      applied({ kind: "update", subscription_id, account_id: null }),
  ],
  "failure that is stored": [
    failure,
    (subscription) => (via) => filed(subscription, {}, { via }),
  ],
  "failure of a new subscription": [
    record,
    (id, account_id) => (via) => filed(`${id}_2`, { account_id }, { via }),
  ],
  "failure of its customer": [
    record,
    (id) => (via) => filed(`${id}_2`, { customer_id: id }, { via }),
  ],
  "first checkout that is applied": [failure, checkout],
  "later checkout that is applied": [customerAdded, checkout],
  "handler that grants a plan": [failure, granting],
};

async function leftOf(id: string, account: string) {
  const ids = `${id}%`;
  return [
    ...await sql`
      select id from billing.subscriptions
      where id like ${ids} or account_id = ${account}
      union all
      select event_id from billing.failed_events
      where subscription_id like ${ids} or account_id = ${account}
      union all
      select customer_id from billing.customers
      where customer_id like ${ids} or account_id = ${account}
      union all
      select event_id from billing.notifications
      where subscription_id like ${ids} or account_id = ${account}`,
  ];
}

for (const [what, [known, event]] of Object.entries(OF_ACCOUNT)) {
  for (const order of ["before", "after"]) {
    Deno.test(`nothing of an account is left by a ${what} just ${order} it is erased`, async () => {
      const [id, account] = [uniqueId("id"), uniqueId("acc")];
      await sql.begin(known(id, account));

      const erase = erasing(account);
      await (order === "before"
        ? meet(event(id, account), erase)
        : meet(erase, event(id, account)));

      const later = creation({ account_id: account, subscription_id: id });
      assertEquals(await apply([later]), ["erased"]);
      await filed(id, { account_id: account, customer_id: id });
      assertEquals(await leftOf(id, account), []);
    });
  }
}

Deno.test("what is stored while an erasure waits is erased too, and does not wait", async () => {
  const [id, account] = [uniqueId("id"), uniqueId("acc")];
  const first = applied({ subscription_id: id, account_id: account });
  await eraseWhileHeld(first, account, async () => {
    // After the erasure has searched the failures, and before it has the locks.
    const before = await filed(`${id}_2`, { customer_id: `${id}_c` });
    const second = creation({
      subscription_id: `${id}_2`,
      account_id: account,
      report: reportOf(`${id}_c`),
    });
    assertEquals(await apply([second]), ["applied"]);
    await filed(`${id}_3`, { account_id: account });
    assertEquals((await failureOf(sql, before)).resolved_at, null);
  });
  assertEquals(await leftOf(id, account), []);
});

for (const what of ["records", "failures", "customers"] as const) {
  Deno.test(`an erasure whose ${what} somebody has locked holds nothing up, and goes on after it`, async () => {
    const [id, account] = [uniqueId("id"), uniqueId("acc")];
    await sql.begin(record(id, account));
    await sql.begin(customerAdded(id, account));
    const eventId = await filed(id, { account_id: account });
    const locks: Record<typeof what, Lock> = {
      records: (via) =>
        via`select from billing.subscriptions where id = ${id} for update`,
      failures: lockFailures(eventId),
      customers: (via) =>
        via`select from billing.customers where customer_id = ${id} for update`,
    };

    await eraseWhileHeld(locks[what], account, () =>
      // The erasure may have the locks at this moment, and gives them back.
      eventually(async () => {
        const more = { subscription_id: `${id}_2`, account_id: account };
        return `${await apply([creation(more)])}` === "applied";
      }));
    assertEquals(await leftOf(id, account), []);
  });
}

Deno.test("no event of another account waits for an erasure", async () => {
  const [id, account] = [uniqueId("id"), uniqueId("acc")];
  await sql.begin(record(id, account));

  const others = Array.from({ length: 50 }, (_, i) => uniqueId(`sub_${i}`));
  const named = others.map((other) =>
    creation({
      subscription_id: other,
      account_id: `acc_${other}`,
      report: reportOf(`cus_${other}`),
    })
  );

  const unnamed = others.map((other) =>
    creation({
      subscription_id: `${other}_2`,
      account_id: null,
      report: reportOf(`cus_${other}`),
    })
  );

  const checkouts = others.map((other) =>
    creation({
      kind: "checkout",
      subscription_id: "",
      account_id: other,
      report: { customer_id: `new_${other}` },
    })
  );
  const events = [...named, ...unnamed, ...checkouts];

  await whileHeld(erasing(account), async () => {
    assertEquals(await apply(events), events.map(() => "applied"));
    for (const other of others) {
      await filed(other, { customer_id: `cus_${other}` });
    }
  });
});

Deno.test("transactions that add different customers never wait", async () => {
  const ids = (name: string) =>
    Array.from({ length: 200 }, () => uniqueId(name));
  const add = (via: ISql, customers: readonly string[]) =>
    via.unsafe(
      `insert into billing.customers (provider, customer_id, account_id)
      select 'a', id, 'acc_1' from unnest($1::text[]) as id`,
      [customers as string[]],
    );

  await sql.begin(async (first) => {
    const customers = ids("one");
    await add(first, customers);
    await first`set constraints all immediate`;

    await sql.begin(async (second) => {
      await second`set local lock_timeout = '1s'`;
      await add(second, ids("two"));
      await second`set constraints all immediate`;
    });

    // Nor does a checkout of a customer that shares a lock with one of them.
    const [customer_id = ""] = customers;
    const prefix = uniqueId("cus");
    const [alike] = await sql<{ id: string }[]>`
      select id from (
        select ${prefix} || i as id from generate_series(1, 100000) as i
      ) as o
      where billing.customer_group_lock('a', id) = billing.customer_group_lock('a', ${customer_id})
      limit 1`;
    const checkout = { kind: "checkout", report: { customer_id: alike!.id } };
    assertEquals(await apply([creation(checkout)]), ["applied"]);

    // Nor does a call that stores a failure of one of them, which is retried.
    const id = await filed("sub", {
      error_code: "account_unknown",
      kind: "creation",
      customer_id,
    });
    assert(await isRequested(id));
  });
});

Deno.test("a run that is asked for while another ends is not lost", async () => {
  const [ends, asks] = [crypto.randomUUID(), crypto.randomUUID()];
  const holds = (via: ISql, run: string) =>
    via<{ held: boolean }[]>`
      select billing.hold_lease('retries', ${run}) as held`;
  const release = (via: ISql) =>
    via<{ goes_on: boolean }[]>`
      select public.billing_release_lease('retries', ${ends}, false) as goes_on`;
  await holds(sql, ends);

  const ended = await callWhileHeld(
    async (via) => {
      assertEquals([...await holds(via, asks)], [{ held: false }]);
    },
    () => release(sql).execute(),
    () => waitsForLock("billing_release_lease"),
  );
  assertEquals([...ended], [{ goes_on: true }]);

  // And the other way round: the run that asks while the other one ends has the queue.
  const asked = await callWhileHeld(
    release,
    () => holds(sql, asks).execute(),
    () => waitsForLock("hold_lease"),
  );
  assertEquals([...asked], [{ held: true }]);
});
