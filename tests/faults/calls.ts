/**
 * Calls of the SQL functions while other sessions hold locks.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres, { type Sql, type TransactionSql } from "postgres";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { setting } from "../support/test_environment.ts";

type Connection = Sql | TransactionSql;

/** An event as `billing_apply_events` takes it. */
export interface WireEvent {
  readonly event_id: string;
  readonly subscription_id: string;
  readonly [field: string]: unknown;
}

/** The receiver gives up at 3 s; two calls may be in an event's way. */
const CALL_LIMIT_MS = 1_500;

export const sql = postgres(setting("TEST_DATABASE_URL"), {
  max: 6,
  onnotice() {},
  connection: { statement_timeout: HANG_LIMIT_MS },
});

export function creation(fields: Partial<WireEvent> = {}): WireEvent {
  return {
    provider: "a",
    event_id: uniqueId("evt"),
    type: "customer.subscription.created",
    kind: "creation",
    subscription_id: uniqueId("sub"),
    account_id: "acc_1",
    report: { plan_id: "plan_1", provider_status: "active" },
    ...fields,
  };
}

export function update(
  subscription_id: string,
  report: Record<string, unknown> = {},
): WireEvent {
  return creation({
    type: "customer.subscription.updated",
    kind: "update",
    subscription_id,
    account_id: null,
    report: { plan_id: "plan_1", provider_status: "past_due", ...report },
  });
}

/** Records new subscriptions, in the order in which calls work on them. */
export async function recorded(count: number): Promise<string[]> {
  const ids = Array.from(
    { length: count },
    (_, i) => uniqueId(`sub_${String(i).padStart(2, "0")}`),
  );
  await apply(ids.map((subscription_id) => creation({ subscription_id })));
  return ids;
}

/**
 * Returns the outcomes of events that are applied together, in the same order.
 * Whatever others have locked, that takes no longer than a call may.
 */
export async function apply(
  events: readonly WireEvent[],
  connection: Connection = sql,
): Promise<string[]> {
  const placed = events.map((event, i) => ({ place: i + 1, ...event }));
  const began = performance.now();
  const rows = await connection<{ said: string }[]>`
    select concat_ws(' ', outcome, error_code) as said
    from public.billing_apply_events(${sql.json(placed as never)})
    order by place`;
  const tookMs = performance.now() - began;
  assertEquals(tookMs < CALL_LIMIT_MS, true, `The call took ${tookMs} ms`);
  return rows.map(({ said }) => said);
}

/** Runs work while another transaction holds a statement's locks. */
export async function whileHeld<T>(
  lock: (holder: TransactionSql) => Promise<unknown>,
  work: (holder: TransactionSql) => Promise<T>,
): Promise<T> {
  return await sql.begin(async (holder) => {
    await lock(holder);
    return await work(holder);
  }) as T;
}

/** Resolves as soon as a call of a function waits for a lock. */
export async function waitsForLock(name: string): Promise<void> {
  const waits = await waitUntil(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where wait_event_type = 'Lock' and strpos(query, ${name}) > 0
        and pid <> pg_backend_pid()`;
    return rows.length > 0;
  }, { timeoutMs: HANG_LIMIT_MS, intervalMs: 1 });
  assertEquals(waits, true, `${name} does not wait`);
}

/** Adds to the database what an app may have; it goes at the end. */
export async function withApp<T>(
  { add, remove }: { add: string; remove: string },
  work: () => Promise<T>,
): Promise<T> {
  await sql.unsafe(add);
  try {
    return await work();
  } finally {
    await sql.unsafe(remove);
  }
}

/** An app's table of two plans, and a foreign key on it. */
export function foreignKey(table: string) {
  return {
    add: `
      create table ${table} (id text primary key);
      insert into ${table} values ('plan_1'), ('plan_2');
      grant select, update on ${table} to service_role;
      alter table billing.subscriptions add constraint ${table}
      foreign key (plan_id) references ${table} not valid;`,
    remove: `
      alter table billing.subscriptions drop constraint ${table};
      drop table ${table};`,
  };
}

/** Files failures of provider a. */
export async function file(...eventIds: string[]): Promise<void> {
  for (const id of eventIds) {
    await sql`
      select public.billing_record_failed_event('a', ${id}, '{}', 'text', 'x', 'x')`;
  }
}

export function lockFailures(...eventIds: string[]) {
  return (holder: Connection) =>
    holder`
      update billing.failed_events set error = 'looked at'
      where event_id = any (${eventIds})`;
}

export function lockRecords(...ids: string[]) {
  return (holder: Connection) =>
    holder`
      update billing.subscriptions set account_id = account_id
      where id = any (${ids})`;
}

/** As another call does that works on them. */
export function lockSubscriptions(...ids: string[]) {
  return (holder: Connection) =>
    holder`
      select pg_advisory_xact_lock(hashtextextended(id, 0))
      from unnest(${ids}::text[]) as id`;
}

/** As somebody does who prunes by hand. */
export function lockLedger(...eventIds: string[]) {
  return (holder: Connection) =>
    holder`
      delete from billing.processed_events where event_id = any (${eventIds})`;
}
