import { assertEquals } from "@std/assert";
import type { Sql } from "postgres";
import type { HistoryEvent } from "../support/histories/history.ts";
import { modelState } from "../support/histories/model.ts";

/**
 * Asserts that the records are those of the model after all events. The time of
 * a cancellation is compared only if the subscription is canceled in the end:
 * for one that came back before the import, Stripe shows no trace of it.
 *
 * @param options.updatesAreLost Whether Stripe no longer has all events. Then
 * nobody knows whether the only event was a creation, which makes a record active
 * whatever status it reports, or also an update that states the same status.
 */
export async function assertRecords(
  events: readonly HistoryEvent[],
  sql: Sql,
  { updatesAreLost = false }: { updatesAreLost?: boolean } = {},
): Promise<void> {
  const { records } = modelState(events);
  const rows = await sql`
    select id, account_id, plan_id,
      case
        when ${updatesAreLost} and status = 'active' and not changed_by_update
        then provider_status else status
      end as status,
      extract(epoch from current_period_end)::bigint::int as current_period_end,
      canceled_at is not null as canceled
    from public.subscriptions
    where id = any (${[...records.keys()]}) order by id collate "C"`;
  assertEquals(
    rows.map((row) => ({
      ...row,
      canceled: row["canceled"] && isCanceled(row),
    })),
    [...records.values()]
      .map((record) => ({
        id: record.id,
        account_id: record.account_id,
        status: record.status,
        plan_id: record.plan_id,
        current_period_end: record.current_period_end,
        canceled: isCanceled(record),
      }))
      .sort((one, other) => one.id < other.id ? -1 : 1),
  );
}

function isCanceled({ status }: { status?: unknown }): boolean {
  return status === "canceled";
}
