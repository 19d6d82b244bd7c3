import { callDatabase, type DatabaseClient } from "../_shared/database.ts";
import { databaseError } from "../_shared/database_errors.ts";
import type { Attempt } from "./channels/channel.ts";

/** A claimed notification. */
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

const TIME_LIMIT = 5_000;

/** An attempt takes 10 s at most; the rest is for two slow calls around it. */
const LEASE_SECONDS = 60;

/** Of an error that is kept, in UTF-16 units: enough to tell what it was. */
const ERROR_LENGTH = 1_000;

/**
 * Claims due notifications, oldest first. Nobody else gets them for a minute.
 *
 * @throws {DeliveryError} Where the database fails.
 */
export async function claimNotifications(
  database: DatabaseClient,
  { limit }: { limit: number },
): Promise<readonly Notification[]> {
  return await callDatabase(
    (signal) =>
      database.rpc("claim_notifications", {
        p_limit: limit,
        p_lease_seconds: LEASE_SECONDS,
      }).abortSignal(signal),
    { timeLimit: TIME_LIMIT },
  );
}

/**
 * Settles claimed notifications by what became of them.
 *
 * @returns how many were still the caller's to settle.
 * @throws {DeliveryError} Where the database fails; they are due again when
 * their lease ends.
 */
export async function settleNotifications(
  database: DatabaseClient,
  attempts: readonly { notification: Notification; attempt: Attempt }[],
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
      database.rpc("settle_notifications", { results }).abortSignal(signal),
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
