import {
  callDatabase,
  type DatabaseClient,
} from "../_shared/billing/database.ts";
import type { DeliveryError } from "../_shared/billing/errors.ts";

/** A failed event that somebody asked to retry, claimed. */
export interface ClaimedFailure {
  readonly provider: string;
  /** What it is filed under; a repaired payload may have another id by now. */
  readonly event_id: string;
  readonly lease_id: string;
  readonly body: string;
  /** `text` or `base64`. */
  readonly body_encoding: string;
}

/** What became of a retry. */
export type RetryOutcome = "applied" | "duplicate" | "stale" | "ignored";

const TIME_LIMIT_MS = 5_000;

/** A batch takes a second or two; after that another worker may have it. */
const LEASE_SECONDS = 60;

/**
 * Claims failures to retry, in the order in which the events occurred.
 *
 * @throws {DeliveryError} Where the database fails.
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
 * Writes what became of retries onto their rows.
 *
 * @throws {DeliveryError} Where the database fails; what was applied is settled
 * all the same, and the rest is tried again when its lease ends.
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
