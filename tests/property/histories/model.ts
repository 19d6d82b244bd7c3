/**
 * The specification's table of transitions, taken literally: events go in one
 * by one, in the order in which they occurred, each exactly once. Times are Unix seconds.
 */
import type { AddOn } from "../../../scripts/events/subscription_event.ts";
import {
  type ApiVersion,
  TEMPLATES,
} from "../../../scripts/events/templates.ts";

const ITEM = TEMPLATES["customer.subscription.created"].data.object.items
  .data[0]!;

export interface Values {
  readonly status: string;
  readonly plan: string;
  readonly periodEnd: number;
  readonly customer: string | null;
  readonly quantity: number | null;
  readonly addOns: readonly AddOn[];
  readonly cancelAt: number | null;
  readonly cancelAtPeriodEnd: boolean;
  readonly trialEnd: number | null;
}

/** One event of a history, with all that a provider knows when it happens. */
export interface HistoryEvent {
  readonly id: string;
  readonly type:
    | "customer.subscription.created"
    | "customer.subscription.updated"
    | "customer.subscription.deleted"
    | "invoice.payment_failed";
  readonly apiVersion: ApiVersion;
  readonly created: number;
  readonly subscription: string;
  readonly account: string;
  /** Whether the account is in the metadata. */
  readonly namesAccount: boolean;
  readonly values: Values;
  /**
   * What an update's `previous_attributes` tell: what it replaced, and what
   * stands beside that in an item that is sent whole.
   */
  readonly previous: Partial<Values>;
}

/** The values as the record has them after an update. */
type RecordedValues = ReturnType<typeof recorded>;

export function recorded(values: Values) {
  return {
    status: values.status,
    plan_id: values.plan,
    current_period_end: values.periodEnd,
    provider_status: values.status,
    customer_id: values.customer,
    quantity: values.quantity,
    // One value: no part of it has an order of its own.
    items: [{ price: values.plan, quantity: values.quantity }, ...values.addOns]
      .map(({ price, quantity }, i) => ({
        item_id: i === 0 ? ITEM.id : `si_${price}`,
        price_id: price,
        product_id: i === 0 ? ITEM.price.product : `prod_${price}`,
        quantity,
        usage_type: ITEM.price.recurring.usage_type,
        current_period_end: new Date(values.periodEnd * 1000).toISOString(),
      })),
    cancel_at: values.cancelAt ??
      (values.cancelAtPeriodEnd ? values.periodEnd : null),
    trial_end: values.trialEnd,
  };
}

interface ModelRecord extends RecordedValues {
  readonly id: string;
  readonly account_id: string;
  readonly past_due_since: number | null;
  readonly had_trial: boolean;
  readonly canceled: boolean;
}

/** Records by ID, and the account notified for each failed invoice event. */
interface ModelState {
  readonly records: Map<string, ModelRecord>;
  readonly notifications: Map<string, string>;
}

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
      had_trial: hadTrial(event, record),
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
        had_trial: hadTrial(event, record),
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

function hadTrial(
  { values }: HistoryEvent,
  record: ModelRecord | undefined,
): boolean {
  return values.trialEnd !== null || (record?.had_trial ?? false);
}

function pastDueSince(
  { values, created }: HistoryEvent,
  record: ModelRecord | undefined,
): number | null {
  if (values.status !== "past_due") return null;
  return record?.past_due_since ?? created;
}
