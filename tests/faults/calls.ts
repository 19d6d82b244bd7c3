import { assert } from "@std/assert";
import type { ISql, TransactionSql } from "postgres";
import { uniqueId } from "../../scripts/events/templates.ts";
import { eventually } from "../support/hang_limit.ts";
import { recordFailure } from "../support/queues.ts";
import { connect } from "../support/tables.ts";

export interface WireEvent {
  readonly event_id: string;
  readonly subscription_id: string;
  readonly [field: string]: unknown;
}

/** The receiver gives up at 3 s; two calls may be in an event's way. */
const CALL_LIMIT_MS = 1_500;

export const sql = connect(6);
Deno.test.afterAll(() => sql.end());

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

export function update(subscription_id: string): WireEvent {
  return creation({
    type: "customer.subscription.updated",
    kind: "update",
    subscription_id,
    account_id: null,
    report: { plan_id: "plan_1", provider_status: "past_due" },
  });
}

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
 * Whatever other sessions have locked, that takes no longer than a call may.
 */
export async function apply(
  events: readonly WireEvent[],
  via: ISql = sql,
): Promise<string[]> {
  const placed = events.map((event, i) => ({ place: i + 1, ...event }));
  const began = performance.now();
  const rows = await via<{ outcome: string }[]>`
    select concat_ws(' ', outcome, error_code) as outcome
    from public.billing_apply_events(${sql.json(placed as never)})
    order by place`;
  const tookMs = performance.now() - began;
  assert(tookMs < CALL_LIMIT_MS, `The call took ${tookMs} ms`);
  return rows.map(({ outcome }) => outcome);
}

export async function file(...eventIds: string[]): Promise<void> {
  for (const event_id of eventIds) await recordFailure(sql, { event_id });
}

/** Takes locks, which its connection holds until the end of the transaction. */
export type Lock = (holder: TransactionSql) => Promise<unknown>;

export function lockFailures(...eventIds: string[]): Lock {
  return (holder) =>
    holder`
      update billing.failed_events set error = 'looked at'
      where event_id = any (${eventIds})`;
}

export function lockLedger(...eventIds: string[]): Lock {
  return (holder) =>
    holder`
      delete from billing.processed_events where event_id = any (${eventIds})`;
}

/** Locks subscriptions as another call of billing_apply_events() does. */
export function lockSubscriptions(...ids: string[]): Lock {
  return (holder) =>
    holder`
      select pg_advisory_xact_lock(hashtextextended(id, 0))
      from unnest(${ids}::text[]) as id`;
}

export async function whileHeld<T>(
  lock: Lock,
  work: () => Promise<T>,
): Promise<T> {
  return await sql.begin(async (holder) => {
    await lock(holder);
    return await work();
  }) as T;
}

/**
 * Makes a call while a lock is held, which is released after `meanwhile`. Returns what
 * the call returned.
 */
export async function callWhileHeld<T>(
  lock: Lock,
  call: () => Promise<T>,
  meanwhile: () => Promise<unknown>,
): Promise<T> {
  // In an object, because a promise would be awaited before the release.
  const { called } = await whileHeld(lock, async () => {
    const called = call();
    await meanwhile();
    return { called };
  });
  return await called;
}

export async function waitsForLock(text: string): Promise<void> {
  await eventually(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where wait_event_type = 'Lock' and strpos(query, ${text}) > 0`;
    return rows.length > 0;
  });
}

/**
 * Runs work while calls stop at a trigger, with all that they have locked, until the work
 * opens it. The trigger is executed `at` that event.
 */
export async function withGate<T>(
  at: string,
  work: (open: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const holder = await sql.reserve();
  const open = () => holder`select pg_advisory_unlock_all()`;

  await sql.unsafe(`
    create function gate() returns trigger language plpgsql
    set lock_timeout = 0 as $$
    begin
      perform pg_advisory_xact_lock_shared(7);
      return null;
    end $$;
    create trigger gate ${at} execute function gate();`);
  await holder`select pg_advisory_lock(7)`;

  try {
    return await work(open);
  } finally {
    await open();
    holder.release();
    await sql`drop function gate cascade`;
  }
}
