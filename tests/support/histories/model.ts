/**
 * The specification's table of transitions, taken literally: events go in one
 * by one, in the order in which they occurred, each exactly once.
 *
 * @module
 */
import {
  type HistoryEvent,
  recorded,
  type RecordedValues,
} from "./history_event.ts";

/** A subscription record, by the specification. */
export interface ModelRecord extends RecordedValues {
  readonly id: string;
  readonly account_id: string;
  /** Unix seconds. */
  readonly past_due_since: number | null;
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
  const record = records.get(event.subscription);
  if (event.type === "customer.subscription.created") {
    records.set(event.subscription, {
      ...recorded(event.values),
      id: event.subscription,
      account_id: event.namesAccount || record === undefined
        ? event.account
        : record.account_id,
      status: "active",
      past_due_since: pastDueSince(event, record),
      canceled: record?.canceled ?? false,
    });
    return;
  }
  if (record === undefined) throw new Error("A history begins with a creation");
  switch (event.type) {
    case "customer.subscription.updated":
      records.set(record.id, {
        ...record,
        ...recorded(event.values),
        past_due_since: pastDueSince(event, record),
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

function pastDueSince(
  { values, created }: HistoryEvent,
  record: ModelRecord | undefined,
): number | null {
  if (values.status !== "past_due") return null;
  return record?.past_due_since ?? created;
}
