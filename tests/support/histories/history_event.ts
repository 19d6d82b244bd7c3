import type { ApiVersion } from "../../../scripts/events/templates.ts";

/** The values that an update can change, as the provider sends them. */
export interface Values {
  readonly status: string;
  readonly plan: string;
  /** Unix seconds. */
  readonly periodEnd: number;
  readonly customer: string | null;
  readonly quantity: number | null;
  /** Unix seconds. */
  readonly cancelAt: number | null;
  readonly cancelAtPeriodEnd: boolean;
  /** Unix seconds. */
  readonly trialEnd: number | null;
  readonly paused: string | null;
  readonly livemode: boolean | null;
}

/** The values as the record has them after an update; times in Unix seconds. */
export interface RecordedValues {
  readonly status: string;
  readonly plan_id: string;
  readonly current_period_end: number;
  readonly provider_status: string;
  readonly customer_id: string | null;
  readonly quantity: number | null;
  readonly cancel_at: number | null;
  readonly trial_end: number | null;
  readonly paused: string | null;
  readonly livemode: boolean | null;
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
  /** Unix seconds. */
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

/** Returns the values as the record has them after an update. */
export function recorded(values: Values): RecordedValues {
  return {
    status: values.status,
    plan_id: values.plan,
    current_period_end: values.periodEnd,
    provider_status: values.status,
    customer_id: values.customer,
    quantity: values.quantity,
    cancel_at: values.cancelAt ??
      (values.cancelAtPeriodEnd ? values.periodEnd : null),
    trial_end: values.trialEnd,
    paused: values.paused,
    livemode: values.livemode,
  };
}
