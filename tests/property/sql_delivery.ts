/**
 * Deliveries straight to the SQL functions, as the receiver makes them.
 *
 * @module
 */
import type { JSONValue, Sql } from "postgres";
import type { HistoryEvent } from "../support/histories/history.ts";
import { wireEvent } from "../support/histories/wire_event.ts";

/** More than a history has deliveries: by then, its creation has had its turn. */
const MOST_IDLE_ROUNDS = 200;

interface Failure {
  readonly event: HistoryEvent;
  readonly error_code: string;
}

/**
 * Delivers the first of every queue in one call, then the second, and so on,
 * and what fails again at the end of its queue, as a provider would. The queues
 * must have no subscription in common.
 *
 * @throws {Error} If some do not get through any more.
 */
export async function deliverTogether(
  queues: readonly (readonly HistoryEvent[])[],
  sql: Sql,
): Promise<void> {
  let waiting = queues.map((queue) => [...queue]);
  let idleRounds = 0;
  while (waiting.length > 0) {
    const batch = waiting.map((queue) => queue.shift() as HistoryEvent);
    const failures = await apply(batch, sql);
    for (const { event } of failures) {
      waiting[batch.indexOf(event)]?.push(event);
    }
    waiting = waiting.filter((queue) => queue.length > 0);
    idleRounds = failures.length < batch.length ? 0 : idleRounds + 1;
    if (idleRounds > MOST_IDLE_ROUNDS) {
      throw new Error("Deliveries do not get through");
    }
  }
}

/**
 * Delivers once.
 *
 * @returns whether the provider would be content.
 */
export async function deliver(
  event: HistoryEvent,
  sql: Sql,
): Promise<boolean> {
  return (await apply([event], sql)).length === 0;
}

/** Makes one call; what fails is filed, as the receiver does. */
async function apply(
  events: readonly HistoryEvent[],
  sql: Sql,
): Promise<Failure[]> {
  const wire = sql.json(events.map(wireEvent) as unknown as JSONValue);
  const rows = await sql<{ place: number; error_code: string }[]>`
    select place, error_code
    from public.billing_apply_events(${wire}) where outcome = 'failed'`;
  if (rows.length === 0) return [];
  const failures = rows.map(({ place, error_code }) => ({
    event: events[place - 1] as HistoryEvent,
    error_code,
  }));
  const filed = failures.map(({ event: { id, type }, error_code }) => ({
    id,
    type,
    error_code,
  }));
  await sql`
    select public.billing_record_failed_event(
      'a', f.id, jsonb_build_object('id', f.id)::text, 'text', f.error_code, 'test', f.type
    )
    from jsonb_to_recordset(${sql.json(filed)})
      as f (id text, type text, error_code text)`;
  return failures;
}
