/**
 * The specification's table of transitions, taken literally: events go in one
 * by one, in the order in which they occurred, each exactly once.
 *
 * @module
 */
import type { HistoryEvent } from "./history.ts";

/** A subscription record, by the specification. */
export interface ModelRecord {
  readonly id: string;
  readonly account_id: string;
  readonly status: string;
  readonly plan_id: string;
  /** Unix seconds. */
  readonly current_period_end: number;
  readonly canceled: boolean;
}

/**
 * The records by id, and the account notified for each failed invoice event.
 */
export interface ModelState {
  readonly records: Map<string, ModelRecord>;
  readonly notifications: Map<string, string>;
}

/** Returns the state that a history ends in. */
export function modelState(events: readonly HistoryEvent[]): ModelState {
  const state: ModelState = { records: new Map(), notifications: new Map() };
  for (const event of events) happen(event, state);
  return state;
}

function happen(event: HistoryEvent, { records, notifications }: ModelState) {
  if (event.type === "customer.subscription.created") {
    records.set(event.subscription, {
      id: event.subscription,
      account_id: event.account,
      status: "active",
      plan_id: event.values.plan,
      current_period_end: event.values.periodEnd,
      canceled: records.get(event.subscription)?.canceled ?? false,
    });
    return;
  }
  const record = records.get(event.subscription);
  if (record === undefined) throw new Error("A history begins with a creation");
  switch (event.type) {
    case "customer.subscription.updated":
      records.set(record.id, {
        ...record,
        status: event.values.status,
        plan_id: event.values.plan,
        current_period_end: event.values.periodEnd,
      });
      break;
    case "customer.subscription.deleted":
      records.set(record.id, { ...record, status: "canceled", canceled: true });
      break;
    case "invoice.payment_failed":
      notifications.set(event.id, record.account_id);
      break;
  }
}
