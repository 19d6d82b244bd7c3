/**
 * Random events of an account, and the records that they end in.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { Sql } from "postgres";
import {
  history,
  type HistoryEvent,
  renamed,
  type Values,
} from "../property/histories/history.ts";
import { type ModelRecord, modelState } from "../property/histories/model.ts";

/**
 * Returns at least this many events of random histories, in the order in which
 * they occurred. As in one account of Stripe's, all are of test mode, and every
 * subscription has a customer.
 */
export function randomEvents(
  least: number,
  { seed, prefix }: { seed: number; prefix: string },
): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  const histories = fc.sample(history, { seed, numRuns: least });
  for (const [i, each] of histories.entries()) {
    if (events.length >= least) break;
    events.push(...renamed(each, `${prefix}_${i}`).events.map(asOfStripe));
  }
  // Stable: what happened to one subscription within a second stays in order.
  return events.sort((one, other) => one.created - other.created);
}

function asOfStripe(event: HistoryEvent): HistoryEvent {
  function withCustomer<T extends Partial<Values>>(values: T): T {
    const customer = `cus_of_${event.subscription}`;
    return values.customer === null ? { ...values, customer } : values;
  }
  return {
    ...event,
    values: { ...withCustomer(event.values), livemode: false },
    previous: withCustomer(event.previous),
  };
}

/**
 * Asserts that the records are those of the model after all events, as far as
 * import and reconcile can know it. Stripe shows no time of a cancellation that
 * was undone; of a canceled subscription, it no longer shows which status it had
 * before, nor since when.
 *
 * @param isPastDueKnown Whether the update that changed the status to past_due
 * was applied, and not only a correction.
 */
export async function assertRecords(
  events: readonly HistoryEvent[],
  sql: Sql,
  isPastDueKnown: (subscription: string) => boolean = () => false,
): Promise<void> {
  const { records } = modelState(events);
  const rows = await sql<ModelRecord[]>`
    select id, account_id, status, plan_id,
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
    return [record.id, {
      ...rest,
      ...(isCanceled ? { canceled } : { provider_status }),
      ...(!isCanceled && isPastDueKnown(record.id) ? { past_due_since } : {}),
    }] as const;
  }
  assertEquals(
    Object.fromEntries(rows.map(knowable)),
    Object.fromEntries(records.values().map(knowable)),
  );
}
