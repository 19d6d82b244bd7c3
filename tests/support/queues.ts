import { assert } from "@std/assert";
import type { ISql, JSONValue, Row, Sql } from "postgres";
import { uniqueId } from "../../scripts/events/templates.ts";
import { eventually } from "./hang_limit.ts";

export async function failureOf(sql: Sql, eventId: string): Promise<Row> {
  const [row] = await sql`
    select * from billing.failed_events where event_id = ${eventId}`;
  assert(row, `Nothing failed under the id ${eventId}`);
  return row;
}

/** Stores a failed event as the receiver does; undefined fields are left out. */
export async function recordFailure(
  sql: ISql,
  failure: { readonly event_id: string; readonly [field: string]: unknown },
): Promise<void> {
  const stored = {
    provider: "a",
    body: "{}",
    body_encoding: "text",
    error_code: "x",
    error: "x",
    ...failure,
  };
  await sql`
    select public.billing_record_failed_event(${
    sql.json(stored as JSONValue)
  })`;
}

export async function requestRetry(sql: Sql, eventId: string): Promise<void> {
  await sql`select billing.retry_failed_event(${eventId})`;
}

export async function repair(
  sql: Sql,
  eventId: string,
  payload: object,
): Promise<void> {
  await sql`
    update billing.failed_events
    set payload = ${JSON.stringify(payload)}::text::jsonb
    where event_id = ${eventId}`;
}

export async function endPauses(sql: Sql): Promise<void> {
  await sql`delete from billing.pauses`;
}

/**
 * Creates notifications that are due, and returns the IDs of their events. Nothing
 * else is due then, and no destination is paused.
 */
export async function oweNotifications(
  sql: Sql,
  { count = 1 }: { count?: number } = {},
): Promise<[string, ...string[]]> {
  await sql`
    update billing.notifications set next_attempt_at = 'infinity'
    where status = 'pending'`;
  await endPauses(sql);
  const rows = Array.from({ length: count }, () => ({
    provider: "a",
    event_id: uniqueId("evt"),
    account_id: "acc_7",
    subscription_id: "sub_7",
  }));
  await sql`insert into billing.notifications ${sql(rows)}`;
  return rows.map((row) => row.event_id) as [string, ...string[]];
}

export async function outboxRow(sql: Sql, eventId: string): Promise<Row> {
  const [row] = await sql`
    select * from billing.notifications where event_id = ${eventId}`;
  assert(row, `Nothing is owed for ${eventId}`);
  return row;
}

/**
 * Returns the row after the run of the worker that made an attempt has ended. Only
 * this waits for a worker that the webhook woke.
 */
export async function settledRow(sql: Sql, eventId: string): Promise<Row> {
  return await eventually(async () => {
    const [row] = await sql`
      select * from billing.notifications
      where event_id = ${eventId} and attempts > 0
        and not exists (
          select from billing.leases
          where queue = 'notifications' and held_until > clock_timestamp()
        )`;
    return row;
  });
}

export async function makeDue(sql: Sql, eventId: string): Promise<void> {
  await endPauses(sql);
  await sql`
    update billing.notifications set next_attempt_at = now()
    where event_id = ${eventId}`;
}

/** Ends the lease of a run of the worker that died, as a minute would. */
export async function endLease(
  sql: Sql,
  queue: "retries" | "notifications" | "sweep",
): Promise<void> {
  await sql`delete from billing.leases where queue = ${queue}`;
}
