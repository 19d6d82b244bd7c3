/**
 * What an operator does about failed events, and the worker's turn after it.
 *
 * @module
 */
import type { Sql } from "postgres";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { post } from "./send.ts";
import type { ServedFunction } from "./serve_function.ts";

/** The columns of a `failed_events` row that tests use. */
export interface Failure {
  readonly payload: unknown;
  readonly original_payload: unknown;
  readonly error_code: string;
  readonly error: string;
  readonly attempts: number;
  readonly retry_requested_at: Date | null;
  readonly retry_lease_id: string | null;
  readonly resolved_at: Date | null;
  readonly resolution: string | null;
}

/** Returns the row of one provider's event. */
export async function failureOf(
  sql: Sql,
  eventId: string,
  { provider = "a" } = {},
): Promise<Failure> {
  const [row] = await sql<[Failure?]>`
    select * from billing.failed_events
    where event_id = ${eventId} and provider = ${provider}`;
  if (!row) throw new Error(`Nothing failed under the id ${eventId}`);
  return row;
}

/** Resolves what other tests have left open, so that no retry takes it. */
export async function settleLeftovers(sql: Sql): Promise<void> {
  await sql`
    update billing.failed_events
    set resolved_at = now(), resolution = 'by hand', retry_requested_at = null
    where resolved_at is null`;
}

/** A turn's counts of retries, alerts and notifications. */
export type Turn = Record<
  "retries" | "alerts" | "notifications",
  Record<string, number>
>;

/** Wakes a worker with the stack's secret key, and returns its counts. */
export async function takeTurn(worker: ServedFunction): Promise<Turn> {
  const { status, body } = await wake(worker);
  if (status === 200) return JSON.parse(body);
  throw new Error(`The worker answered ${status}\n${worker.output()}`);
}

/** Wakes a worker, and returns its answer. */
export async function wake(worker: ServedFunction) {
  const { secret } = await localKeys();
  return await post(worker.url, { headers: { apikey: secret } });
}

/** Requests the retry of an event, as in the SQL editor. */
export async function requestRetry(sql: Sql, eventId: string): Promise<void> {
  await sql`select billing.retry_failed_event(${eventId})`;
}

/** Repairs a payload, as in the SQL editor. */
export async function repair(
  sql: Sql,
  eventId: string,
  payload: object,
): Promise<void> {
  const text = JSON.stringify(payload);
  await sql`
    update billing.failed_events set payload = ${text}::text::jsonb
    where event_id = ${eventId}`;
}
