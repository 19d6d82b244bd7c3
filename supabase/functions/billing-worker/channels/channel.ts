/** A notification to an account. Its times are in the time format of PostgREST. */
export interface Notification {
  readonly id: string;
  readonly kind: string;
  readonly provider: string;
  readonly event_id: string;
  readonly account_id: string;
  readonly subscription_id: string;
  readonly invoice_id: string | null;
  /** Where the invoice can be paid; https only. */
  readonly hosted_invoice_url: string | null;
  /** In the smallest unit of the currency. */
  readonly amount_due: number | null;
  readonly currency: string | null;
  /** How often the provider has tried to collect the payment. */
  readonly attempt_count: number | null;
  /**
   * When the provider tries again. Null if it does not; if `attempt_count` is null as
   * well, the event did not say.
   */
  readonly next_payment_attempt: string | null;
  readonly trial_end: string | null;
  /** Only for `ended`: whether another subscription still gives access. */
  readonly still_has_access: boolean | null;
  /** When the event occurred, or else was handled. */
  readonly occurred_at: string;
  readonly created_at: string;
}

/** An alert to the operator. Its times are in the time format of PostgREST. */
export interface Alert {
  /** The same until the alert is delivered. */
  readonly id: string;
  readonly kind: string;
  readonly alert: FailureOpened | FailuresResolved | HandlerNotListed;
  readonly created_at: string;
}

/** Failures of one error code are open, and no alert has counted them. */
export interface FailureOpened {
  readonly error_code: string;
  /** The newest failure's message; missing if it may repeat the event's data. */
  readonly error?: string;
  /** How many are open, and how many of these no alert has counted. */
  readonly open: number;
  readonly new: number;
  readonly first_failed_at: string;
  readonly last_failed_at: string;
  /** The newest failure's event. */
  readonly provider: string;
  readonly event_id: string;
  readonly event_type?: string;
}

/** No failure of an error code is open any more. */
interface FailuresResolved {
  readonly error_code: string;
  readonly resolved: number;
  readonly opened_at: string;
}

/** `HANDLE_EVENT_TYPES` lists no type that calls these functions of the app. */
interface HandlerNotListed {
  readonly error_code: string;
  readonly handlers: readonly string[];
}

export interface Attempt {
  /**
   * - `failed`: it is tried again, unless this was the last attempt.
   * - `limited`: 429, which does not count as an attempt; all sending pauses.
   * - `dead`: the destination answered 410.
   * - `undeliverable`: the account has no address.
   *
   * The last two are not tried again.
   */
  readonly result: "sent" | "failed" | "limited" | "dead" | "undeliverable";
  readonly error?: string;
  readonly retryAfterSeconds?: number | undefined;
}

export interface Channel<Message = Notification> {
  /** Names where messages go; a 429 pauses it for all workers. Not secret. */
  readonly destination: string;
  /** How many requests per second are allowed; undefined means no limit. */
  readonly perSecond?: number;
  /** Makes one attempt within the time limit. It never throws. */
  send(message: Message): Promise<Attempt>;
}

export const ATTEMPT_TIME_LIMIT_MS = 10_000;
