import type { BillingEvent } from "../_shared/billing/database/apply_events.ts";
import {
  callFunction,
  type DatabaseFunctions,
} from "../_shared/billing/database/client.ts";
import { describeText } from "../_shared/billing/database/record_failure.ts";
import { DeliveryError, toDeliveryError } from "../_shared/billing/errors.ts";
import { fromBase64 } from "../_shared/billing/events/fields.ts";
import type { Format } from "../_shared/billing/events/format.ts";
import {
  decodeBody,
  parseEvent,
} from "../_shared/billing/events/parse_event.ts";
import { settingsPrefix } from "../_shared/billing/settings/providers.ts";
import { whyIgnored } from "../_shared/billing/settings/why_ignored.ts";
import {
  type AppliedOutcome,
  applyAll,
  type ApplyAllOptions,
  type ApplyResult,
  hasFailed,
  type ReadEvent,
} from "./apply_all.ts";

/** The id in a repaired payload may differ from that of its row. */
type ClaimedFailure = Readonly<
  DatabaseFunctions["billing_claim_failed_events"]["Returns"][number]
>;

export type RetryCounts = Record<"claimed" | "failed" | AppliedOutcome, number>;

export const NO_RETRIES: RetryCounts = {
  claimed: 0,
  failed: 0,
  applied: 0,
  duplicate: 0,
  stale: 0,
  ignored: 0,
};

export interface RetryOptions extends ApplyAllOptions {
  readonly leaseId: string;
}

/** `billing_claim_failed_events` returns fewer if their bodies are large. */
const BATCH_SIZE = 25;

/** For one run; the next goes on. Supabase gives a request 2 s of processor time. */
const RETRY_TIME_MS = 20_000;
const RETRY_LIMIT = 1_000;

const CALL_LIMIT = { timeLimitMs: 5_000 };

/**
 * Retries the failures for which a retry was requested or is due, until none is left or
 * the run is at its limit. The ledger makes sure that none is applied twice. If another
 * run has the queue, nothing is claimed.
 *
 * @throws {DeliveryError} If a database call fails. The next run retries the claimed
 * failures.
 */
export async function retryFailures(
  options: RetryOptions,
): Promise<RetryCounts> {
  const counts = { ...NO_RETRIES };
  const endMs = options.clock() + RETRY_TIME_MS;
  do {
    const results = await retryBatch(options);
    if (results.length === 0) break;
    for (const result of results) {
      if (result === "untried") continue;
      counts.claimed++;
      counts[typeof result === "string" ? result : "failed"]++;
    }
  } while (options.clock() < endMs && counts.claimed < RETRY_LIMIT);
  return counts;
}

async function retryBatch(
  options: RetryOptions,
): Promise<readonly ApplyResult[]> {
  const { database, leaseId, log } = options;
  const claimed = await callFunction(database, "billing_claim_failed_events", {
    lease_id: leaseId,
    batch_size: BATCH_SIZE,
  }, CALL_LIMIT);
  if (claimed.length === 0) return [];

  const failures = claimed.map((failure) => readFailure(failure, options));
  const results = await applyAll(failures, options);

  // Applied events are settled even if this call fails.
  await callFunction(database, "billing_settle_failed_events", {
    lease_id: leaseId,
    results: results.map((result, i) => settledResult(failures[i]!, result)),
  }, CALL_LIMIT);

  const locked = results.filter((result) => hasFailed(result, "record_locked"));
  if (locked.length > 0) {
    const message =
      "another session has locked the records: they are tried again";
    log("warn", message, { counts: { locked: locked.length } });
  }
  return results;
}

type ReadFailure = ReadEvent & { readonly failure: ClaimedFailure };

/**
 * Reads a failure as a delivery. It was stored because it was handled: if it is not now,
 * a setting has changed, and it stays open.
 */
function readFailure(
  failure: ClaimedFailure,
  { readingSettings, leaseId, clock, ...settings }: RetryOptions,
): ReadFailure {
  const { provider, event_id, body, body_encoding } = failure;
  let text = "";
  let format: Format | undefined;
  try {
    const reading = readingSettings(provider);
    format = reading.format;
    text = body_encoding === "base64" ? decodeBody(fromBase64(body)) : body;

    const nowSeconds = clock() / 1000;
    const id = format.idOf && event_id;
    const options = { ...settings, ...reading, id, nowSeconds };
    const parsed = parseEvent(text, options);
    if (parsed.isIgnored) {
      const why = whyIgnored(parsed, { provider, format });
      throw new DeliveryError("no_longer_handled", why);
    }

    const retry = { event_id, lease_id: leaseId };
    const event: BillingEvent = { ...parsed.event, provider, retry };
    return { failure, format, text, event };
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const why = whyNoLongerRead(error, { failure, format, text });
    const fault = why ? new DeliveryError("no_longer_handled", why) : error;
    return { failure, format, text, fault };
  }
}

/** Returns the setting because of which a failure cannot be read, if any. */
function whyNoLongerRead(
  error: DeliveryError,
  { failure: { provider, type }, format, text }: ReadFailure,
): string | undefined {
  if (error.code === "provider_misconfigured") return error.message;

  // It had a type when it was stored, so the format has changed.
  const isOfOtherFormat = error.code === "event_invalid" && type !== null &&
    format && describeText(text, format).type === undefined;
  return isOfOtherFormat
    ? `It has no type: check ${settingsPrefix(provider)}FORMAT`
    : undefined;
}

/** Describes the payload again, because it may have been repaired. */
function settledResult(
  { failure: { provider, event_id }, format, text }: ReadFailure,
  result: ApplyResult,
) {
  const described = format && describeText(text, format);
  const outcome = typeof result === "string"
    ? { outcome: result }
    : { outcome: "failed", error_code: result.code, error: result.message };
  return { provider, event_id, ...described, ...outcome };
}
