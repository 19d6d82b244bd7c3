import type { Payment } from "../../_shared/billing/events/event.ts";

/** A notification to an account. Times are as PostgREST writes them, also in an alert. */
export type Notification = Readonly<
  Required<Payment> & {
    id: string;
    provider: string;
    event_id: string;
    account_id: string;
    subscription_id: string;
    /** Only for `ended`: whether another subscription still gives access. */
    still_has_access: boolean | null;
    /** When the event occurred, or else was handled. */
    occurred_at: string;
    created_at: string;
  }
>;

/** An alert to the operator. */
export type Alert = Readonly<{
  /** The same until the alert is delivered. */
  id: string;
  kind: string;
  alert:
    | FailureOpened
    | FailuresResolved
    | HandlerNotListed
    | EventsMissed
    | SweepFailed;
  created_at: string;
}>;

/** Failures of one error code are open, and no alert has counted them. */
export type FailureOpened = Readonly<{
  error_code: string;
  /** The newest failure's message; missing if it may repeat the event's data. */
  error?: string;
  /** How many are open, and how many of these no alert has counted. */
  open: number;
  new: number;
  first_failed_at: string;
  last_failed_at: string;
  /** The newest failure's event. */
  provider: string;
  event_id: string;
  event_type?: string;
}>;

/** No failure of an error code is open any more. */
type FailuresResolved = Readonly<{
  error_code: string;
  resolved: number;
  opened_at: string;
}>;

/** `HANDLE_EVENT_TYPES` lists no type that calls these functions of the app. */
type HandlerNotListed = Readonly<{
  error_code: string;
  handlers: readonly string[];
}>;

/** Sweeps have found events that never arrived. */
export type EventsMissed = Readonly<{
  error_code: "events_missed";
  provider: string;
  missed: number;
  types: Readonly<Record<string, number>>;
  /** Not sent: the call that settles the alert needs it. */
  found_until: string;
}>;

/** A provider's key is refused, or its sweeps fail. */
export type SweepFailed = Readonly<{
  error_code: "api_key_refused" | "sweep_failed";
  provider: string;
  /** Missing if the last run was ended. */
  error?: string;
  last_success_at?: string;
}>;

export type Attempt = Readonly<{
  /**
   * - `failed`: it is tried again, unless this was the last attempt.
   * - `limited`: 429, which does not count as an attempt; all sending pauses.
   * - `dead`: the destination answered 410.
   * - `undeliverable`: the account has no address. Like `dead`, it is not tried again.
   * - `unsent`: not made, because the destination answered 429 to an earlier one.
   */
  result:
    | "sent"
    | "failed"
    | "limited"
    | "dead"
    | "undeliverable"
    | "unsent";
  error?: string;
  retryAfterSeconds?: number | undefined;
}>;

export type Channel<Message = Notification> = Readonly<{
  /** Names where messages go; a 429 pauses it for all workers. Not secret. */
  destination: string;
  /** How many requests per second are allowed; undefined means no limit. */
  perSecond?: number;
  /** Makes one attempt within the time limit. It never throws. */
  send(message: Message): Promise<Attempt>;
}>;

export const ATTEMPT_TIME_LIMIT_MS = 10_000;
