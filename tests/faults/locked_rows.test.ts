/**
 * Rows that another transaction has locked: what needs them fails or is left
 * for later, at once, and the rest of the call goes on.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import postgres, { type Sql, type TransactionSql } from "postgres";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { failureOf, settleLeftovers } from "../support/triage.ts";

/** What waits for a lock after all is to fail: the receiver gives up at 3 s. */
const TIMEOUT_MS = 2_500;

const sql = postgres(setting("TEST_DATABASE_URL"), {
  max: 4,
  onnotice() {},
  connection: { statement_timeout: TIMEOUT_MS },
});
Deno.test.beforeEach(() => settleLeftovers(sql));
Deno.test.afterAll(async () => {
  await emptyTables(sql);
  await sql.end();
});

/** Runs work while another transaction holds a statement's locks. */
async function whileHeld<T>(
  lock: (holder: TransactionSql) => Promise<unknown>,
  work: () => Promise<T>,
): Promise<T> {
  return await sql.begin(async (holder) => {
    await lock(holder);
    return await work();
  }) as T;
}

interface WireEvent {
  readonly event_id: string;
  readonly subscription_id: string;
  readonly [field: string]: unknown;
}

function creation(fields: Partial<WireEvent> = {}): WireEvent {
  return {
    provider: "a",
    event_id: uniqueId("evt"),
    type: "customer.subscription.created",
    subscription_id: uniqueId("sub"),
    account_id: "acc_1",
    plan_id: "plan_1",
    current_period_end: "2027-02-01T00:00:00Z",
    ...fields,
  };
}

function update(subscription_id: string): WireEvent {
  const type = "customer.subscription.updated";
  return creation({ type, subscription_id, status: "past_due" });
}

/** The outcomes of events that are applied together, in the same order. */
async function apply(...events: WireEvent[]): Promise<string[]> {
  return await applyOver(sql, events);
}

async function applyOver(
  connection: Sql | TransactionSql,
  events: readonly WireEvent[],
): Promise<string[]> {
  const rows = await connection<{ said: string }[]>`
    select concat_ws(' ', outcome, error_code) as said
    from public.billing_apply_events(${sql.json(events as never)})
    order by place`;
  return rows.map(({ said }) => said);
}

/** The same, and nothing waits for a lock: that would take a second. */
async function applyAtOnce(...events: WireEvent[]): Promise<string[]> {
  return await sql.begin(async (call) => {
    await call`set local statement_timeout = '900ms'`;
    return await applyOver(call, events);
  });
}

/** Files failures of provider a. */
async function file(...eventIds: string[]): Promise<void> {
  for (const id of eventIds) {
    await sql`
      select public.billing_record_failed_event('a', ${id}, '{}', 'text', 'x', 'x')`;
  }
}

function lockFailure(eventId: string) {
  return (holder: Sql | TransactionSql) =>
    holder`
      update billing.failed_events set error = 'looked at'
      where event_id = ${eventId}`;
}

Deno.test("a locked failure makes only its own event fail", async () => {
  const subscription = creation();
  await apply(subscription);
  const event = update(subscription.subscription_id);
  await file(event.event_id);
  const outcomes = await whileHeld(
    lockFailure(event.event_id),
    () =>
      applyAtOnce(
        creation(),
        event,
        update(event.subscription_id),
        creation(),
      ),
  );
  assertEquals(outcomes, ["applied", "failed 55P03", "applied", "applied"]);
  assertEquals(await apply(event), ["applied"]);
});

Deno.test("a duplicate whose failure is locked is a duplicate", async () => {
  const event = creation();
  await apply(event);
  await sql`
    insert into billing.failed_events (
      provider, event_id, payload, payload_encoding, error_code, error
    ) values ('a', ${event.event_id}, '{}', 'json', 'x', 'x')`;
  assertEquals(
    await whileHeld(lockFailure(event.event_id), () => applyAtOnce(event)),
    ["duplicate"],
  );
  assertEquals(await apply(event), ["duplicate"]);
  assertEquals(
    (await failureOf(sql, event.event_id)).resolution,
    "duplicate",
  );
});

Deno.test("a locked subscription makes only its own events fail, and a row that refers to a subscription does not lock it", async () => {
  // Applied in the order of their ids: what is locked comes first.
  const locked = creation({ subscription_id: uniqueId("sub_0") });
  const referred = creation({ subscription_id: uniqueId("sub_1") });
  await apply(locked, referred);
  const outcomes = await whileHeld(
    async (holder) => {
      await holder`
        update billing.subscriptions set account_id = account_id
        where id = ${locked.subscription_id}`;
      // What a foreign key takes.
      await holder`
        select from billing.subscriptions
        where id = ${referred.subscription_id} for key share`;
    },
    () =>
      applyAtOnce(
        creation({ subscription_id: locked.subscription_id }),
        update(locked.subscription_id),
        update(referred.subscription_id),
        creation(),
      ),
  );
  assertEquals(outcomes, [
    "failed 55P03",
    "failed 55P03",
    "applied",
    "applied",
  ]);
});

/** Records so many subscriptions, at a time that later updates come after. */
async function recorded(count: number): Promise<string[]> {
  const created = "2027-01-15T08:00:00Z";
  const creations = Array.from({ length: count }, () => creation({ created }));
  await apply(...creations);
  return creations.map((event) => event.subscription_id);
}

/** An update that is applied together with those of other subscriptions. */
function laterUpdate(
  subscription_id: string,
  fields: Partial<WireEvent> = {},
): WireEvent {
  const created = "2027-01-15T09:00:00Z";
  return { ...update(subscription_id), created, ...fields };
}

Deno.test("a locked subscription makes only its own update fail among many, and the others are applied together", async () => {
  const ids = await recorded(6);
  const events = ids.map((id) => laterUpdate(id));
  const claims = events.map((event) => `a/${event.event_id}`);
  const applied = await whileHeld(
    async (holder) => {
      await holder`
        update billing.subscriptions set account_id = account_id
        where id = ${ids[2]!}`;
      // What a foreign key takes.
      await holder`
        select from billing.subscriptions where id = ${ids[3]!} for key share`;
    },
    async () => {
      const [row] = await sql<{ together: string[] }[]>`
        select public.apply_updates_together(
          ${sql.json(events as never)}, ${claims}, '{}'
        ) as together`;
      assertEquals(
        row?.together.toSorted(),
        claims.toSpliced(2, 1).toSorted(),
      );
      const created = "2027-01-15T10:00:00Z";
      return await applyAtOnce(
        ...ids.map((id) => laterUpdate(id, { created })),
      );
    },
  );
  assertEquals(applied, [
    "applied",
    "applied",
    "failed 55P03",
    "applied",
    "applied",
    "applied",
  ]);
});

Deno.test("of many subscriptions, a call locks the rows of those that it has claimed and locked, and no others", async () => {
  const [duplicate, elsewhere, ...own] = await recorded(7);
  const known = laterUpdate(duplicate!);
  await apply(known);
  const isFree = async (id: string) => {
    const rows = await sql`
      select from billing.subscriptions
      where id = ${id} for no key update skip locked`;
    return rows.length === 1;
  };
  await whileHeld(
    (holder) =>
      holder`select pg_advisory_xact_lock(hashtextextended(${elsewhere!}, 0))`,
    () =>
      sql.begin(async (call) => {
        const events = [elsewhere!, ...own].map((id) => laterUpdate(id));
        assertEquals(await applyOver(call, [known, ...events]), [
          "duplicate",
          "failed 55P03",
          ...own.map(() => "applied"),
        ]);
        assert(await isFree(duplicate!) && await isFree(elsewhere!));
        assert(!await isFree(own[0]!));
      }),
  );
});

Deno.test("an app's foreign key that waits makes only its own update fail among many, soon after other waits", async () => {
  const [known, elsewhere, waiting, ...own] = await recorded(7);
  const repeated = laterUpdate(known!);
  await apply(repeated);
  const table = `plans_${crypto.randomUUID().replaceAll("-", "")}`;
  await sql.unsafe(`
    create table ${table} (id text primary key);
    insert into ${table} values ('plan_1'), ('plan_2');
    grant select, update on ${table} to service_role;
    alter table billing.subscriptions add constraint ${table}
    foreign key (plan_id) references ${table} not valid;`);
  try {
    const outcomes = await whileHeld(
      async (holder) => {
        await holder`
          delete from billing.processed_events
          where event_id = ${repeated.event_id}`;
        await holder`
          select pg_advisory_xact_lock(hashtextextended(${elsewhere!}, 0))`;
        await holder.unsafe(
          `select from ${table} where id = 'plan_2' for update`,
        );
      },
      // Each of the first two waits takes a second.
      () =>
        apply(
          repeated,
          laterUpdate(elsewhere!),
          laterUpdate(waiting!, { plan_id: "plan_2" }),
          ...own.map((id) => laterUpdate(id)),
        ),
    );
    assertEquals(outcomes, [
      ...Array(3).fill("failed 55P03"),
      ...own.map(() => "applied"),
    ]);
  } finally {
    await sql.unsafe(`
      alter table billing.subscriptions drop constraint ${table};
      drop table ${table};`);
  }
});

Deno.test("a locked row of the ledger makes only its own event fail, which can be applied later", async () => {
  const [first, second, event] = [creation(), creation(), creation()];
  await apply(event);
  const again = { ...event, plan_id: "plan_2" };
  const outcomes = await whileHeld(
    (holder) =>
      holder`
        delete from billing.processed_events where event_id = ${event.event_id}`,
    () => apply(first, again, second, again),
  );
  assertEquals(outcomes, [
    "applied",
    "failed 55P03",
    "applied",
    "failed 55P03",
  ]);
  assertEquals(await apply(again, first, second), [
    "stale",
    "duplicate",
    "duplicate",
  ]);
});

Deno.test("a subscription that another call has fails its own events, and keeps no others from being applied", async () => {
  const [held, other] = [creation(), creation()];
  const events = [held, other, update(held.subscription_id)];
  const outcomes = await whileHeld(
    (holder) =>
      holder`
        select pg_advisory_xact_lock(hashtextextended(${held.subscription_id}, 0))`,
    () => apply(...events),
  );
  assertEquals(outcomes, ["failed 55P03", "applied", "failed 55P03"]);
  assertEquals(await apply(...events), ["applied", "duplicate", "applied"]);
});

Deno.test("an app's trigger that waits does so once per subscription, and other subscriptions are applied", async () => {
  // Applied in the order of their ids: what waits comes first.
  const waiting = ["sub_0", "sub_1", "sub_2"].map((prefix) =>
    creation({ subscription_id: uniqueId(prefix) })
  );
  const other = creation({ subscription_id: uniqueId("sub_3") });
  await apply(...waiting, other);
  const ids = waiting.map((event) => event.subscription_id);
  await using trigger = await waitingTrigger(ids);
  const outcomes = await whileHeld(
    (holder) => holder.unsafe(`select from ${trigger.name} for update`),
    () => apply(...[...ids, ...ids, other.subscription_id].map(update)),
  );
  assertEquals(outcomes, [...Array(6).fill("failed 55P03"), "applied"]);
  assertEquals(await trigger.calls(), ids.length);
});

Deno.test("a trigger's waits that come to an end share the second with those that do not", async () => {
  const waiting = ["sub_0", "sub_1"].map((prefix) =>
    creation({ subscription_id: uniqueId(prefix) })
  );
  await apply(...waiting);
  const [first, second] = waiting.map((event) => event.subscription_id);
  await using trigger = await waitingTrigger([first!, second!]);
  const holds = `select from ${trigger.name} where id = $1 for update`;
  const released = Promise.withResolvers<void>();
  const firstHolder = whileHeld(
    (holder) => holder.unsafe(holds, [first!]),
    () => released.promise,
  );
  const outcomes = await whileHeld(
    (holder) => holder.unsafe(holds, [second!]),
    () =>
      sql.begin(async (call) => {
        // Two whole waits would take longer.
        await call`set local statement_timeout = '1500ms'`;
        setTimeout(released.resolve, 600);
        return await applyOver(call, [first!, second!].map(update));
      }),
  );
  await firstHolder;
  assertEquals(outcomes, ["applied", "failed 55P03"]);
});

/** A trigger of the app's: it waits for a row of its own per subscription. */
async function waitingTrigger(ids: readonly string[]): Promise<
  & { readonly name: string; readonly calls: () => Promise<number> }
  & AsyncDisposable
> {
  const name = `wait_${crypto.randomUUID().replaceAll("-", "")}`;
  await sql.unsafe(`
    create table ${name} (id text primary key);
    create sequence ${name}_calls;
    create function ${name}() returns trigger language plpgsql as $$
    begin
      if exists (select from public.${name} where id = new.id) then
        perform nextval('public.${name}_calls');
        perform from public.${name} where id = new.id for update;
      end if;
      return new;
    end $$;
    create trigger ${name} after update on billing.subscriptions
    for each row execute function ${name}();`);
  for (const id of ids) await sql`insert into ${sql(name)} values (${id})`;
  return {
    name,
    calls: async () => {
      const [row] = await sql.unsafe(`select last_value from ${name}_calls`);
      return Number(row?.["last_value"]);
    },
    [Symbol.asyncDispose]: async () => {
      await sql.unsafe(`
        drop trigger ${name} on billing.subscriptions;
        drop function ${name}(); drop table ${name}; drop sequence ${name}_calls;`);
    },
  };
}

Deno.test("a failure whose row is locked is not counted, and leaves nothing in the ledger", async () => {
  const id = uniqueId("evt");
  await file(id);
  const error = await whileHeld(
    lockFailure(id),
    () => assertRejects(() => file(id)),
  );
  assertEquals((error as { code?: string }).code, "55P03");
  assertEquals((await failureOf(sql, id)).attempts, 1);
  const ledger = await sql`
    select from billing.processed_events where event_id = ${id}`;
  assertEquals(ledger.length, 0);
});

Deno.test("settle_failed_events() leaves a locked row to its lease, and settles the others", async () => {
  const ids = [uniqueId("evt"), uniqueId("evt")] as const;
  await file(...ids);
  await sql`select billing.retry_failed_events()`;
  const claimed =
    await sql`select * from public.billing_claim_failed_events(10, 60)`;
  const results = claimed.map(({ provider, event_id, lease_id }) => ({
    provider,
    event_id,
    lease_id,
    outcome: "ignored",
  }));
  const settle = async () => {
    const [row] = await sql`
      select public.billing_settle_failed_events(${
      sql.json(results)
    }) as settled`;
    return row?.["settled"];
  };
  assertEquals(await whileHeld(lockFailure(ids[0]), settle), 1);
  const left = await failureOf(sql, ids[0]);
  assertEquals(left.resolved_at, null);
  assert(left.retry_requested_at !== null && left.retry_leased_until !== null);
  assertEquals((await failureOf(sql, ids[1])).resolution, "ignored");
});

Deno.test("a locked place in the ledger leaves its retry to the lease, and others are written", async () => {
  const ids = [uniqueId("evt"), uniqueId("evt")] as const;
  await file(...ids);
  await sql`
    insert into billing.processed_events (provider, event_id, type)
    values ('a', ${ids[0]}, 'x')`;
  await sql`select billing.retry_failed_events()`;
  const claimed =
    await sql`select * from public.billing_claim_failed_events(10, 60)`;
  const results = claimed.map(({ provider, event_id, lease_id }) => ({
    provider,
    event_id,
    lease_id,
    outcome: "duplicate",
  }));
  const [row] = await whileHeld(
    (holder) =>
      holder`
        delete from billing.processed_events where event_id = ${ids[0]}`,
    () =>
      sql`
        select public.billing_settle_failed_events(${
        sql.json(results)
      }) as settled`,
  );
  assertEquals(row?.["settled"], 1);
  const left = await failureOf(sql, ids[0]);
  assertEquals(left.resolved_at, null);
  assert(left.retry_requested_at !== null && left.retry_leased_until !== null);
  assertEquals((await failureOf(sql, ids[1])).resolution, "duplicate");
});

let lastCreated = 1_800_000_000;

/** Files events of one subscription that occurred in this order. */
async function fileInOrder(...eventIds: string[]): Promise<void> {
  const subscription = uniqueId("sub");
  const type = "customer.subscription.updated";
  for (const id of eventIds) {
    const created = ++lastCreated;
    const data = { object: { id: subscription } };
    await sql`
      select public.billing_record_failed_event(
        'a', ${id}, ${
      JSON.stringify({ type, created, data })
    }, 'text', 'x', 'x',
        ${type}
      )`;
  }
}

async function claim(limit: number): Promise<string[]> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from public.billing_claim_failed_events(${limit}, 60)`;
  return rows.map(({ event_id }) => event_id);
}

Deno.test("a locked retry holds its subscription back, and nothing else", async () => {
  const ids = ["before", "locked", "after", "last"].map((name) =>
    uniqueId(`evt_${name}`)
  );
  await fileInOrder(...ids);
  const others = ["a", "b", "c"].map((name) => uniqueId(`evt_${name}`));
  for (const other of others) await fileInOrder(other);
  await sql`select billing.retry_failed_events()`;
  // What is held back must not use up the limit.
  assertEquals(
    await whileHeld(lockFailure(ids[1]!), () => claim(2)),
    others.slice(0, 2),
  );
  assertEquals(await claim(10), [...ids, others[2]]);
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
      assert(
        await waitUntil(async () => {
          const waiting = await sql`
            select from pg_locks
            where locktype = 'advisory' and objid = 7 and not granted`;
          return waiting.length > 0;
        }, { timeoutMs: TIMEOUT_MS }),
      );
      await lockFailure(eventId)(sql);
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
  await apply(event);
  await sql`
    insert into billing.failed_events (
      provider, event_id, payload, payload_encoding, error_code, error
    ) values ('a', ${event.event_id}, '{}', 'json', 'x', 'x')`;
  await changedInBetween(
    event.event_id,
    (caller) => applyOver(caller, [event]),
  );
  assertEquals(
    (await failureOf(sql, event.event_id)).resolution,
    "duplicate",
  );
});

Deno.test("a retry is settled, also on a row that changes meanwhile", async () => {
  const id = uniqueId("evt");
  await file(id);
  await sql`select billing.retry_failed_events()`;
  const [claimed] =
    await sql`select * from public.billing_claim_failed_events(10, 60)`;
  const { provider, event_id, lease_id } = claimed!;
  const results = [{ provider, event_id, lease_id, outcome: "ignored" }];
  await changedInBetween(id, (caller) =>
    caller`
      select public.billing_settle_failed_events(${sql.json(results)})`);
  assertEquals((await failureOf(sql, id)).resolution, "ignored");
});

Deno.test("retry_failed_events() asks for a row that changes meanwhile", async () => {
  const id = uniqueId("evt");
  await file(id);
  await changedInBetween(
    id,
    (caller) => caller`select billing.retry_failed_events()`,
  );
  assert((await failureOf(sql, id)).retry_requested_at !== null);
});

Deno.test("retry_failed_events() requests retries of the rows that are not locked, and counts the others", async () => {
  const [locked, free] = [uniqueId("evt"), uniqueId("evt")] as const;
  await file(locked, free);
  const [row] = await whileHeld(
    lockFailure(locked),
    () => sql`select billing.retry_failed_events() as answer`,
  );
  assertMatch(
    row?.["answer"],
    /^Somebody else has locked 1 of them: run this again\. Retry requested: 1\./,
  );
  assertEquals((await failureOf(sql, locked)).retry_requested_at, null);
  const [again] = await sql`select billing.retry_failed_events() as answer`;
  assertMatch(again?.["answer"], /^Retry requested: 2\./);
});

Deno.test("retry_failed_events() holds nothing while somebody has a row locked", async () => {
  const [locked, free] = [uniqueId("evt"), uniqueId("evt")] as const;
  await file(locked, free);
  const [row] = await whileHeld(
    lockFailure(locked),
    () =>
      sql.begin(async (call) => {
        await call`set local statement_timeout = '900ms'`;
        return await call`select billing.retry_failed_events() as answer`;
      }),
  );
  assertMatch(row?.["answer"], /^Somebody else has locked 1 of them/);
});

Deno.test("two people who repair an event each and retry all do not deadlock", async () => {
  const ids = [uniqueId("evt"), uniqueId("evt"), uniqueId("evt")] as const;
  await file(...ids);
  const locked = [0, 1].map(() => Promise.withResolvers<void>());
  const both = Promise.all(locked.map(({ promise }) => promise));
  await Promise.all([0, 1].map((person) =>
    sql.begin(async (editor) => {
      await lockFailure(ids[person]!)(editor);
      locked[person]!.resolve();
      await both;
      await editor`select billing.retry_failed_events()`;
    })
  ));
  for (const id of ids) {
    assert((await failureOf(sql, id)).retry_requested_at !== null);
  }
});

/** Notifications that a worker has, claimed for the nth time. */
async function leased(count: number, attempts: number) {
  return await sql<{ id: string; lease_id: string }[]>`
    insert into billing.notifications (
      provider, event_id, account_id, subscription_id, attempts, lease_id, next_attempt_at
    )
    select 'a', ${uniqueId("evt")} || i, 'acc_1', 'sub_1', ${attempts},
      gen_random_uuid(), now() - interval '1 second'
    from generate_series(1, ${count}) as i
    returning id, lease_id`;
}

Deno.test("a locked notification is left to its lease, and the rest of its batch is settled", async () => {
  const batch = await leased(3, 1);
  const results = batch.map((row) => ({ ...row, result: "sent" }));
  const [row] = await whileHeld(
    (holder) =>
      holder`
        update billing.notifications set last_error = 'looked at'
        where id = ${batch[0]!.id}`,
    () =>
      sql`
        select public.billing_settle_notifications(${
        sql.json(results)
      }, 'host') as settled`,
  );
  assertEquals(row?.["settled"], 2);
  const left = await sql`
    select id, lease_id from billing.notifications
    where id = any(${batch.map(({ id }) => id)}) and status = 'pending'`;
  assertEquals([...left], [{ ...batch[0]! }]);
});

Deno.test("a claim of notifications that waits for its turn has none locked that a worker settles", async () => {
  const [spent] = await leased(1, 10);
  const destination = uniqueId("host");
  await sql`
    insert into public.notification_pace values (${destination}, now())`;
  const claimed = Promise.withResolvers<unknown>();
  await whileHeld(
    (holder) =>
      holder`
        select from public.notification_pace
        where destination = ${destination} for update`,
    async () => {
      const claim = sql`
        select from public.billing_claim_notifications(1, 60, ${destination})`;
      claim.then(claimed.resolve, claimed.reject);
      assert(
        await waitUntil(async () => {
          const waiting = await sql`
          select from pg_stat_activity
          where wait_event_type = 'Lock' and query ~ 'claim_notifications'
            and pid <> pg_backend_pid()`;
          return waiting.length > 0;
        }, { timeoutMs: TIMEOUT_MS }),
      );
      const free = await sql`
        select from billing.notifications where id = ${spent!.id}
        for update skip locked`;
      assertEquals(free.length, 1);
    },
  );
  await claimed.promise;
});
