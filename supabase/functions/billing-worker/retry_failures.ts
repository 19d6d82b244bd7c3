import type { Log } from "../_shared/billing/log.ts";
import {
  applyFailures,
  type ApplyOptions,
  hasFailed,
  type Retry,
} from "./apply_failures.ts";
import {
  claimFailures,
  LEASE_SECONDS,
  type RetryOutcome,
  settleFailures,
} from "./retry_queue.ts";

/** The results of the retries of one run. */
export type RetryCounts = Record<"claimed" | "failed" | RetryOutcome, number>;

/** What is needed to retry failures. */
export interface RetryOptions extends ApplyOptions {
  readonly log: Log;
}

/** At most; `claim_failed_events` gives fewer if their bodies are large. */
const BATCH_SIZE = 25;

/** For one run; the rest waits for the next run. */
const RUN_TIME_MS = 20_000;

/**
 * Retries the failures for which a retry was requested, through the code that
 * handles deliveries, until none is left or the time of the run is over. The
 * database checks whether an event was applied meanwhile, so none is applied
 * twice.
 *
 * @throws {DeliveryError} If a database call fails; the claimed failures are
 * tried again when their lease ends.
 */
export async function retryFailures(
  options: RetryOptions,
): Promise<RetryCounts> {
  const counts = {
    claimed: 0,
    failed: 0,
    applied: 0,
    duplicate: 0,
    stale: 0,
    ignored: 0,
  };
  const endMs = options.clock() + RUN_TIME_MS;
  do {
    const claimed = await claimFailures(options.database, {
      limit: BATCH_SIZE,
    });
    if (claimed.length === 0) break;
    const retries = await applyFailures(claimed, options);
    const settled = retries.filter(hasResult);
    await settleFailures(options.database, settled);
    if (settled.length < retries.length) {
      const locked = retries.length - settled.length;
      options.log(
        "warn",
        `another session has locked the records; tried again in ${LEASE_SECONDS} s`,
        { counts: { locked } },
      );
    }
    counts.claimed += retries.length;
    for (const { result } of retries) {
      counts[typeof result === "string" ? result : "failed"]++;
    }
  } while (options.clock() < endMs);
  return counts;
}

/**
 * Returns whether there is a result to store. There is none if the records were
 * locked: the retry stays requested, and is due when its lease ends.
 */
function hasResult({ result }: Retry): boolean {
  return !hasFailed(result, "record_locked");
}
