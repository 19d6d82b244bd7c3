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
