/**
 * Deliveries straight to the SQL functions, as the receiver makes them.
 *
 * @module
 */
import type { Sql } from "postgres";
import type { HistoryEvent } from "./history.ts";
import { wireEvent } from "./wire_event.ts";

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
