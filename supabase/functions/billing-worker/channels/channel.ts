/** A notification, as a channel sends it. */
export interface Notification {
  readonly id: string;
  readonly lease_id: string;
  readonly provider: string;
  readonly event_id: string;
  readonly account_id: string;
  readonly subscription_id: string;
  readonly invoice_id: string | null;
  /** When the event was applied, in the time format of PostgREST. */
  readonly created_at: string;
  /** Where the invoice can be paid; https only. */
  readonly hosted_invoice_url: string | null;
  /** In the smallest unit of the currency. */
  readonly amount_due: number | null;
  /** Three lower-case letters. */
  readonly currency: string | null;
  /** How often the provider has tried to collect the payment. */
  readonly attempt_count: number | null;
  /**
   * In the time format of PostgREST. Null if the provider does not try again, or,
   * if `attempt_count` is null too, if that is not known.
   */
  readonly next_payment_attempt: string | null;
}

/** The result of an attempt to deliver a notification. */
export type Attempt =
  | { readonly result: "sent" }
  | {
    /** It is tried again, unless this was the last attempt. */
    readonly result: "failed";
    readonly error: string;
    /** From the Retry-After header. */
    readonly retryAfterSeconds?: number | undefined;
  }
  | {
    /** 429. It does not count as an attempt, and all sending pauses. */
    readonly result: "limited";
    readonly error: string;
    /** From the Retry-After header. */
    readonly retryAfterSeconds?: number | undefined;
  }
  | {
    /** It is not tried again: given up, or the account has no address. */
    readonly result: "dead" | "undeliverable";
    readonly error: string;
  };

/** A way to reach an account. */
export interface Channel {
  readonly name: "webhook" | "email";
  /** The receiver whose rate limit applies, shared by all workers. Not secret. */
  readonly destination: string;
  /** How many requests per second are allowed; undefined means no limit. */
  readonly perSecond?: number;
  /** Makes one attempt within the time limit. It never throws. */
  send(notification: Notification): Promise<Attempt>;
}

/** For one attempt. */
export const ATTEMPT_TIME_LIMIT_MS = 10_000;
