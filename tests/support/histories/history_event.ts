import type { ApiVersion } from "../../../scripts/events/templates.ts";

/** The values that an update can change. */
export interface Values {
  readonly status: string;
  readonly plan: string;
  /** Unix seconds. */
  readonly periodEnd: number;
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
  readonly values: Values;
  /**
   * What an update's `previous_attributes` tell: what it replaced, and what
   * stands beside that in an item that is sent whole.
   */
  readonly previous: Partial<Values>;
}
