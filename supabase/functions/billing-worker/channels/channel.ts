/** What a channel sends. */
export interface Notification {
  readonly id: string;
  readonly lease_id: string;
  readonly provider: string;
  readonly event_id: string;
  readonly account_id: string;
  readonly subscription_id: string;
  readonly invoice_id: string | null;
  /** When it was promised, as PostgREST writes a time. */
  readonly created_at: string;
}

/** What became of an attempt to deliver a notification. */
export type Attempt =
  | { readonly result: "sent" }
  | {
    /** It is tried again, unless that was the last attempt. */
    readonly result: "failed";
    readonly error: string;
    /** What the receiver asks for, in seconds. */
    readonly retryAfterSeconds?: number | undefined;
  }
  | {
    /** 429: it was not looked at, so it is no attempt. Nothing is sent until then. */
    readonly result: "limited";
    readonly error: string;
    /** What the receiver asks for, in seconds. */
    readonly retryAfterSeconds?: number | undefined;
  }
  | {
    /** It is not tried again: given up, or there is nowhere to send it. */
    readonly result: "dead" | "undeliverable";
    readonly error: string;
  };

/** A way to reach an account. */
export interface Channel {
  readonly name: "webhook" | "email";
  /** Whose limit of requests holds, for all workers together. Not secret. */
  readonly destination: string;
  /** How many requests a second it may make; any number if undefined. */
  readonly perSecond?: number;
  /** Makes one attempt, within the time limit. It does not throw. */
  send(notification: Notification): Promise<Attempt>;
}

/** For one attempt, in milliseconds. */
export const ATTEMPT_TIME_LIMIT_MS = 10_000;
