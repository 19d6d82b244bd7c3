import { assertEquals } from "@std/assert";
import type { Sql } from "postgres";
import type { HistoryEvent } from "../support/histories/history.ts";
import { type ModelRecord, modelState } from "../support/histories/model.ts";

/**
 * Asserts that the records are those of the model after all events, as far as
 * import and reconcile can know it: Stripe shows what a subscription is, and not
 * how it came to that.
 *
 * - The time of a cancellation is compared only if the subscription is canceled
 *   in the end. One that came back before shows no trace of it.
 * - If it is canceled, Stripe no longer shows which status it had before, nor
 *   since when.
 *
 * @param options.isPastDueKnown Whether the update that changed the status to
 * past_due was applied, and not only a correction.
 * @param options.updatesAreLost Whether Stripe no longer has all events. Then
 * nobody knows whether the only event was a creation, which makes a record active
 * whatever status it reports, or also an update that states the same status.
 */
export async function assertRecords(
  events: readonly HistoryEvent[],
  sql: Sql,
  { isPastDueKnown = () => false, updatesAreLost = false }: {
    isPastDueKnown?: (subscription: string) => boolean;
    updatesAreLost?: boolean;
  } = {},
): Promise<void> {
  const { records } = modelState(events);
  const rows = await sql<ModelRecord[]>`
    select id, account_id, plan_id,
      case
        when ${updatesAreLost} and status = 'active' and not changed_by_update
        then provider_status else status
      end as status,
      extract(epoch from current_period_end)::bigint::int as current_period_end,
      canceled_at is not null as canceled,
      provider_status, customer_id, quantity,
      extract(epoch from cancel_at)::bigint::int as cancel_at,
      extract(epoch from trial_end)::bigint::int as trial_end,
      paused, livemode,
      extract(epoch from past_due_since)::bigint::int as past_due_since
    from public.billing_records
    where id = any (${[...records.keys()]})`;

  function knowable(record: ModelRecord) {
    const isCanceled = record.status === "canceled";
    const { canceled, provider_status, past_due_since, ...rest } = record;
    return {
      ...rest,
      ...(isCanceled ? { canceled } : { provider_status }),
      ...(!isCanceled && isPastDueKnown(record.id) ? { past_due_since } : {}),
    };
  }
  assertEquals(
    rows.map(knowable).sort(byId),
    [...records.values()].map(knowable).sort(byId),
  );
}

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}
