/** An event on the wire, in the form that `billing_apply_events` takes. */

/** What an event does to its subscription. The ordering rule in SQL reads only this. */
export type Kind =
  | "creation"
  | "update"
  /** An update that makes the record if there is none. */
  | "opening_update"
  | "deletion"
  | "payment_failed"
  | "notice";

export type HandledEvent = {
  readonly event_id: string;
  readonly type: string;
  readonly kind: Kind | "checkout" | "other";
  /** In ISO 8601; null if the event does not say. */
  readonly occurred_at: string | null;
  /** Missing if the event has no effect on a subscription. */
  readonly subscription_id?: string | null;
  /**
   * The account that a new record belongs to, in an event that may make one. If it is
   * null, the database asks `account_of_customer`.
   */
  readonly account_id?: string | null;
  /** The account that the provider keeps with the customer, if that function knows none. */
  readonly fallback_account?: string | null;
  /** In an event without `account_id`: the account that it names, which may be erased. */
  readonly named_account?: string;
  /** The columns that the event sets, or would set if it made the record. */
  readonly report: Partial<Report> & { subscription_id?: string | null };
  /** In an update: what it replaced; null if it does not say. */
  readonly previous?: Partial<Report> | null;
  readonly payment?: Payment;
};

/** An event, and its text as signed if a handler of the app is to read it. */
export type EventToApply = HandledEvent & { readonly payload?: string };

/** The columns that belong to the newest creation or update; times in ISO 8601. */
export type Report = {
  readonly plan_id: string | null;
  readonly current_period_end: string | null;
  readonly provider_status: string | null;
  readonly customer_id: string | null;
  readonly quantity: number | null;
  readonly cancel_at: string | null;
  readonly trial_end: string | null;
  readonly paused: string | null;
  readonly paused_until: string | null;
  readonly livemode: boolean | null;
  readonly items: ReportedItem[];
  readonly items_complete: boolean;
};

export type ReportedItem = {
  readonly item_id: string | null;
  readonly price_id: string | null;
  readonly product_id: string | null;
  readonly quantity: number | null;
  readonly usage_type: string | null;
  readonly current_period_end: string | null;
};

/** What a notification says, by column of `billing.notifications`. */
export type Payment = {
  readonly kind: string;
  readonly trial_end?: string | null;
  readonly invoice_id?: string | null;
  readonly hosted_invoice_url?: string | null;
  readonly amount_due?: number | null;
  readonly currency?: string | null;
  readonly attempt_count?: number | null;
  readonly next_payment_attempt?: string | null;
};
