/**
 * Deliveries straight to the SQL functions, as the receiver makes them.
 *
 * @module
 */
import type { Sql } from "postgres";
import type { HistoryEvent } from "./history.ts";

/** An event as `apply_billing_events` takes it. */
export function wireEvent(event: HistoryEvent): Record<string, unknown> {
  const { status, plan, periodEnd } = event.previous;
  return {
    provider: "a",
    event_id: event.id,
    type: event.type,
    created: dateTime(event.created),
    subscription_id: event.subscription,
    account_id: event.account,
    status: event.values.status,
    plan_id: event.values.plan,
    current_period_end: dateTime(event.values.periodEnd),
    previous: { status, plan_id: plan, current_period_end: periodEnd },
    invoice_id: null,
  };
}

/**
 * Delivers once; a failure is filed, as the receiver does.
 *
 * @returns whether the provider would be content.
 */
export async function deliver(
  event: HistoryEvent,
  sql: Sql,
): Promise<boolean> {
  const [row] = await sql<{ outcome: string; error_code: string }[]>`
    select outcome, error_code
    from public.apply_billing_events(${sql.json([wireEvent(event)] as never)})`;
  if (row?.outcome !== "failed") return true;
  await sql`
    select public.record_failed_event(
      'a', ${event.id}, ${JSON.stringify({ id: event.id })}, 'text',
      ${row.error_code}, 'test', ${event.type}
    )`;
  return false;
}

function dateTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
