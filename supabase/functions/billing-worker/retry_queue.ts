import {
  callDatabase,
  type DatabaseClient,
} from "../_shared/billing/database.ts";
import type { DeliveryError } from "../_shared/billing/errors.ts";

/** A failed event that was claimed for a requested retry. */
export interface ClaimedFailure {
  readonly provider: string;
  /** The id of the row; a repaired payload may have a different id. */
  readonly event_id: string;
  readonly lease_id: string;
  readonly body: string;
  /** `text` or `base64`. */
  readonly body_encoding: string;
}

/** The outcome of a retry that did not fail. */
export type RetryOutcome = "applied" | "duplicate" | "stale" | "ignored";

const TIME_LIMIT_MS = 5_000;

/** A batch takes a second or two. After the lease another worker may claim it. */
export const LEASE_SECONDS = 60;

/**
 * Claims failures to retry, in the order in which the events occurred.
 *
 * @throws {DeliveryError} If the database call fails.
 */
export async function claimFailures(
  database: DatabaseClient,
  { limit }: { limit: number },
): Promise<readonly ClaimedFailure[]> {
  return await callDatabase(
    (signal) =>
      database.rpc("claim_failed_events", {
        p_limit: limit,
        p_lease_seconds: LEASE_SECONDS,
      }).abortSignal(signal),
    { timeLimitMs: TIME_LIMIT_MS },
  );
}

/**
 * Stores the results of retries in their rows.
 *
 * @returns How many rows were settled.
 * @throws {DeliveryError} If the database call fails. Events that were applied
 * are settled anyway; the others are tried again when their lease ends.
 */
export async function settleFailures(
  database: DatabaseClient,
  retries: readonly {
    failure: ClaimedFailure;
    result: RetryOutcome | DeliveryError;
  }[],
): Promise<number> {
  const results = retries.map(({ failure, result }) => ({
    provider: failure.provider,
    event_id: failure.event_id,
    lease_id: failure.lease_id,
    ...(typeof result === "string" ? { outcome: result } : {
      outcome: "failed",
      error_code: result.code,
      error: result.message,
    }),
  }));
  return await callDatabase(
    (signal) =>
      database.rpc("settle_failed_events", { results }).abortSignal(signal),
    { timeLimitMs: TIME_LIMIT_MS },
  );
}
