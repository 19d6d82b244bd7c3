/** Events, in the form that `billing_apply_events` takes. */
import type { NotificationKind } from "./event_settings.ts";

/** The effect of an event on its subscription; the ordering rule in SQL decides by it. */
export type Kind =
  | "creation"
  | "update"
  /** An update that creates the record if there is none. */
  | "opening_update"
  | "deletion"
  | "payment_failed"
  | "notice";

export type WireEvent = Readonly<{
  event_id: string;
  type: string;
  kind: Kind | "checkout" | "other";
  /** In ISO 8601; null if the event has no time. */
  occurred_at: string | null;
  /** Missing if the event has no effect on a subscription. */
  subscription_id?: string | null;
  /** Only in events that may create a record. If null, `account_of_customer` is asked. */
  account_id?: string | null;
  /** The account that the provider keeps with the customer; used if that function returns null. */
  fallback_account?: string | null;
  /** Only in events without `account_id`: the account that they name, which may be erased. */
  named_account?: string;
  /** The columns that the event sets, or would set if it created the record. */
  report: Partial<Report> & { subscription_id?: string | null };
  /** Only in updates: the values that it replaced; null if it does not state them. */
  previous?: Partial<Report> | null;
  payment?: Payment & { readonly once_per_invoice?: true };
  /** The signed text, if a handler of the app reads it. */
  payload?: string;
}>;

type Nullable<Fields> = {
  readonly [Name in keyof Fields]: Fields[Name] | null;
};

/** The columns that belong to the newest creation or update; times in ISO 8601. */
export type Report =
  & Nullable<{
    plan_id: string;
    current_period_end: string;
    provider_status: string;
    customer_id: string;
    quantity: number;
    cancel_at: string;
    trial_end: string;
    paused: string;
    paused_until: string;
    livemode: boolean;
  }>
  & Readonly<{ items: ReportedItem[]; items_complete: boolean }>;

export type ReportedItem = Nullable<{
  item_id: string;
  price_id: string;
  product_id: string;
  quantity: number;
  usage_type: string;
  current_period_end: string;
}>;

/** The notification that an event may create, by column of `billing.notifications`. */
export type Payment =
  & Readonly<{ kind: NotificationKind }>
  & Nullable<{
    trial_end?: string;
    invoice_id?: string;
    /** Where the invoice can be paid; https only. */
    hosted_invoice_url?: string;
    /** In the smallest unit of the currency. */
    amount_due?: number;
    currency?: string;
    attempt_count?: number;
    /**
     * When the provider tries again. Null if it does not; if `attempt_count` is null as
     * well, the event did not say.
     */
    next_payment_attempt?: string;
  }>;
