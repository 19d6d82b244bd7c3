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
 * What became of a claimed notification: an attempt, or none, because the
 * receiver stopped the ones before it.
 */
export type Result = Attempt | { readonly result: "unsent" };

const TIME_LIMIT = 5_000;

/**
 * From the time at which a notification is to be sent. The answer to the claim
 * takes up to 5 s, the last of its batch is sent 2 s later, an attempt takes up
 * to 15 s (an e-mail: 5 s for the address, 10 s for the mail), and the call that
 * settles it 5 s: 27 s.
 */
const LEASE_SECONDS = 60;

/** Of an error that is kept, in UTF-16 units: enough to tell what it was. */
const ERROR_LENGTH = 1_000;

/**
 * Claims due notifications, oldest first. Nobody else gets them for a minute.
 * There are none while the channel's destination wants none.
 *
 * @throws {DeliveryError} Where the database fails.
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
    { timeLimit: TIME_LIMIT },
  );
}

/**
 * Settles claimed notifications by what became of them. One that was limited
 * stops all that go to the destination, until it takes some again.
 *
 * @returns how many were still the caller's to settle.
 * @throws {DeliveryError} Where the database fails; they are due again when
 * their lease ends.
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
    retry_after_seconds: "retryAfter" in attempt
      ? attempt.retryAfter ?? null
      : null,
  }));
  return await callDatabase(
    (signal) =>
      database.rpc("settle_notifications", {
        results,
        p_destination: destination,
      }).abortSignal(signal),
    { timeLimit: TIME_LIMIT },
  );
}

/**
 * Some of the text is others', and one that Postgres cannot hold would keep the
 * whole batch from being settled.
 */
function storable(error: string): string {
  return error.slice(0, ERROR_LENGTH).replaceAll("\0", "").toWellFormed();
}

/**
 * The address of an account, as the project's own `account_email` gives it.
 *
 * @throws {DeliveryError} Where the database fails.
 */
export async function accountEmail(
  database: DatabaseClient,
  accountId: string,
): Promise<string | null> {
  const signal = AbortSignal.timeout(TIME_LIMIT);
  const { data, error } = await database
    .rpc("account_email", { account_id: accountId }).abortSignal(signal);
  if (error !== null) {
    throw databaseError(error.code, `account_email failed: ${error.message}`);
  }
  return data;
}
