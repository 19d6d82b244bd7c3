import {
  callDatabase,
  type DatabaseClient,
} from "../_shared/billing/database.ts";
import { databaseError } from "../_shared/billing/database_errors.ts";
import type { Attempt, Channel, Notification } from "./channels/channel.ts";

/** A claimed notification, and how long to wait before it is sent. */
export interface ClaimedNotification extends Notification {
  readonly wait_ms: number;
}

/**
 * The result for a claimed notification: an attempt, or `unsent` if the receiver
 * answered 429 to one before it.
 */
export type Result = Attempt | { readonly result: "unsent" };

const TIME_LIMIT_MS = 5_000;

/**
 * Counted from the time at which a notification is to be sent. The reply to the
 * claim takes up to 5 s, the last of its batch is sent 2 s later, an attempt takes
 * up to 15 s (an e-mail: 5 s for the address, 10 s for the mail), and the call
 * that settles it 5 s: 27 s.
 */
const LEASE_SECONDS = 60;

/** Of a stored error, in UTF-16 units: enough to identify it. */
const ERROR_LENGTH = 1_000;

/**
 * Claims due notifications, oldest first. No other worker can claim them for a
 * minute. Claims none while the destination has asked for a pause.
 *
 * @throws {DeliveryError} If the database call fails.
 */
export async function claimNotifications(
  database: DatabaseClient,
  { limit, channel: { destination, perSecond } }: {
    limit: number;
    channel: Channel;
  },
): Promise<readonly ClaimedNotification[]> {
  return await callDatabase(
    (signal) =>
      database.rpc("claim_notifications", {
        p_limit: limit,
        p_lease_seconds: LEASE_SECONDS,
        p_destination: destination,
        ...(perSecond !== undefined && { p_per_second: perSecond }),
      }).abortSignal(signal),
    { timeLimitMs: TIME_LIMIT_MS },
  );
}

/**
 * Stores the results of claimed notifications. A `limited` result pauses all
 * notifications to the destination.
 *
 * @returns How many were settled; not counted are those whose lease had ended
 * and that another worker had claimed.
 * @throws {DeliveryError} If the database call fails; the notifications are due
 * again when their lease ends.
 */
export async function settleNotifications(
  database: DatabaseClient,
  { attempts, destination }: {
    attempts: readonly { notification: Notification; attempt: Result }[];
    destination: string;
  },
): Promise<number> {
  const results = attempts.map((
    { notification: { id, lease_id }, attempt },
  ) => ({
    id,
    lease_id,
    result: attempt.result,
    error: "error" in attempt ? storable(attempt.error) : null,
    retry_after_seconds: "retryAfterSeconds" in attempt
      ? attempt.retryAfterSeconds ?? null
      : null,
  }));
  return await callDatabase(
    (signal) =>
      database.rpc("settle_notifications", {
        results,
        p_destination: destination,
      }).abortSignal(signal),
    { timeLimitMs: TIME_LIMIT_MS },
  );
}

/**
 * Makes an error storable. Part of the text comes from outside, and text that
 * Postgres cannot store would prevent the whole batch from being settled.
 */
function storable(error: string): string {
  return error.slice(0, ERROR_LENGTH).replaceAll("\0", "").toWellFormed();
}

/**
 * Returns the e-mail address of an account, from the project's `account_email`
 * function in the database; null if it has none.
 *
 * @throws {DeliveryError} If the database call fails.
 */
export async function accountEmail(
  database: DatabaseClient,
  accountId: string,
): Promise<string | null> {
  const signal = AbortSignal.timeout(TIME_LIMIT_MS);
  const { data, error } = await database
    .rpc("account_email", { account_id: accountId }).abortSignal(signal);
  if (error !== null) {
    throw databaseError(error.code, `account_email failed: ${error.message}`);
  }
  return data;
}
