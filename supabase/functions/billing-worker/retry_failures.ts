import {
  applyEvents,
  type RetriedEvent,
} from "../_shared/billing/apply_events.ts";
import type { DatabaseClient } from "../_shared/billing/database.ts";
import { decodeBody } from "../_shared/billing/decode_body.ts";
import {
  DeliveryError,
  type ErrorCode,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import type { HandledEvent } from "../_shared/billing/events.ts";
import type { Log } from "../_shared/billing/log.ts";
import { parseEvent } from "../_shared/billing/parse_event.ts";
import {
  isUnmapped,
  type UnmappedChoice,
} from "../_shared/billing/unmapped.ts";
import {
  type ClaimedFailure,
  claimFailures,
  LEASE_SECONDS,
  type RetryOutcome,
  settleFailures,
} from "./retry_queue.ts";

/** The results of the retries of one run. */
export type RetryCounts = Record<"claimed" | "failed" | RetryOutcome, number>;

/** What is needed to retry failures. */
export interface RetryOptions {
  readonly database: DatabaseClient;
  /** What happens to events of subscriptions without an account. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Whether further failed payments of an invoice create no notification. */
  readonly oncePerInvoice: boolean;
  /** How far ahead of now an event may be dated, in seconds. */
  readonly toleranceSeconds: number;
  readonly log: Log;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** A claimed failure, with the result so far. */
interface Retry<Result = RetryOutcome | DeliveryError> {
  readonly failure: ClaimedFailure;
  /** The event as text; empty if the body is not text. */
  readonly text: string;
  readonly result: Result;
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
    const retries = await applyAll(claimed, options);
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

async function applyAll(
  claimed: readonly ClaimedFailure[],
  options: RetryOptions,
): Promise<Retry[]> {
  const { clock, toleranceSeconds } = options;
  const time = { nowSeconds: clock() / 1000, toleranceSeconds };
  const parsed = claimed.map((failure) => parse(failure, time));
  const handled = parsed.flatMap(({ failure, result }) =>
    isEvent(result) ? [{ failure, event: retried(result, failure) }] : []
  );
  const events = handled.map(({ event }) => event);
  const applied = events.length > 0 ? await applyEvents(events, options) : [];
  const outcomes = awaitCreations(events, applied);
  const outcomeOf = new Map(
    handled.map(({ failure }, index) => [failure, outcomes[index]!]),
  );
  return parsed.map(({ failure, text, result }) => ({
    failure,
    text,
    result: isEvent(result) ? outcomeOf.get(failure)! : result,
  })).map((retry) => ignoreUnmapped(retry, options));
}

function retried(
  event: HandledEvent,
  { provider, event_id, lease_id }: ClaimedFailure,
): RetriedEvent {
  return { ...event, provider, retry: { event_id, lease_id } };
}

/**
 * An event whose subscription is unknown may wait for a creation beside it that
 * somebody has locked. Then it fails as that does, and is due again with it.
 */
function awaitCreations(
  events: readonly HandledEvent[],
  outcomes: readonly Retry["result"][],
): Retry["result"][] {
  const locked = new Map(
    events.map(({ subscription_id }, index) =>
      [subscription_id, outcomes[index]] as const
    ).filter(([, outcome]) => hasFailed(outcome, "record_locked")),
  );
  return outcomes.map((outcome, index) =>
    hasFailed(outcome, "subscription_unknown") ||
      hasFailed(outcome, "creation_pending")
      ? locked.get(events[index]!.subscription_id) ?? outcome
      : outcome
  );
}

function hasFailed(
  result: Retry["result"] | undefined,
  code: ErrorCode,
): boolean {
  return result instanceof DeliveryError && result.code === code;
}

function ignoreUnmapped(
  retry: Retry,
  { unmappedSubscriptions }: RetryOptions,
): Retry {
  const isIgnored = unmappedSubscriptions === "ignore" &&
    retry.result instanceof DeliveryError &&
    isUnmapped(retry.result, retry.text);
  return isIgnored ? { ...retry, result: "ignored" } : retry;
}

type Parsed = HandledEvent | "ignored" | DeliveryError;

function isEvent(parsed: Parsed): parsed is HandledEvent {
  return parsed !== "ignored" && !(parsed instanceof DeliveryError);
}

function parse(
  failure: ClaimedFailure,
  time: { nowSeconds: number; toleranceSeconds: number },
): Retry<Parsed> {
  let text = "";
  try {
    text = textOf(failure);
    const parsed = parseEvent(text, time);
    const result = parsed.handled ? parsed.event : "ignored";
    return { failure, text, result };
  } catch (thrown) {
    return { failure, text, result: toDeliveryError(thrown) };
  }
}

function textOf({ body, body_encoding }: ClaimedFailure): string {
  return body_encoding === "base64" ? decodeBody(fromBase64(body)) : body;
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
