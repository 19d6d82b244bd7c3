import { applyEvents } from "../_shared/billing/apply_events.ts";
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
  type RetryOutcome,
  settleFailures,
} from "./retry_queue.ts";

/** What became of the retries of one turn. */
export type RetryCounts = Record<"claimed" | "failed" | RetryOutcome, number>;

interface Options {
  readonly database: DatabaseClient;
  /** Whether events of subscriptions that belong to no account fail. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** How far ahead of now an event may be dated, in seconds. */
  readonly toleranceSeconds: number;
  readonly log: Log;
  /** The clock, in milliseconds since the epoch. */
  readonly now: () => number;
}

type Retry = { failure: ClaimedFailure; result: RetryOutcome | DeliveryError };

/** Bodies of a mebibyte, all of them in memory at once, leave room for more. */
const BATCH_SIZE = 25;

/** For a turn, in milliseconds; what is left by then waits for the next. */
const TURN_TIME = 20_000;

/**
 * Retries the failures that somebody asked for, through the code that handles
 * deliveries, until none is left or the turn's time is over. The database
 * decides whether an event was applied meanwhile, so nothing is applied twice.
 *
 * @throws {DeliveryError} Where the database fails; the claimed ones are tried
 * again when their lease ends.
 */
export async function retryFailures(options: Options): Promise<RetryCounts> {
  const counts = {
    claimed: 0,
    failed: 0,
    applied: 0,
    duplicate: 0,
    stale: 0,
    ignored: 0,
  };
  const end = options.now() + TURN_TIME;
  do {
    const claimed = await claimFailures(options.database, {
      limit: BATCH_SIZE,
    });
    if (claimed.length === 0) break;
    const retries = await applyAll(claimed, options);
    await settleFailures(options.database, retries.filter(isOver));
    counts.claimed += retries.length;
    for (const { result } of retries) {
      counts[typeof result === "string" ? result : "failed"]++;
    }
  } while (options.now() < end);
  return counts;
}

/**
 * Whether there is an outcome to write. While somebody has the records locked
 * there is none: the retry stays wanted, and is due when its lease ends.
 */
function isOver({ result }: Retry): boolean {
  return !hasFailed(result, "record_locked");
}

async function applyAll(
  claimed: readonly ClaimedFailure[],
  options: Options,
): Promise<Retry[]> {
  const { toleranceSeconds } = options;
  const clock = { now: options.now() / 1000, toleranceSeconds };
  const parsed = claimed.map((failure) => ({
    failure,
    result: parse(failure, clock),
  }));
  const events = parsed.flatMap(({ failure, result }) => {
    if (!isEvent(result)) return [];
    const { provider, event_id, lease_id } = failure;
    return [{ ...result, provider, retry: { event_id, lease_id } }];
  });
  const applied = events.length > 0 ? await applyEvents(events, options) : [];
  const outcomes = awaitCreations(events, applied).values();
  return parsed.map(({ failure, result }) => ({
    failure,
    result: isEvent(result) ? outcomes.next().value as Retry["result"] : result,
  })).map((retry) => ignoreUnmapped(retry, options));
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
    hasFailed(outcome, "subscription_unknown")
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
  { failure, result }: Retry,
  { unmappedSubscriptions }: Options,
): Retry {
  const isIgnored = unmappedSubscriptions === "ignore" &&
    result instanceof DeliveryError &&
    isUnmapped(result, () => textOf(failure));
  return { failure, result: isIgnored ? "ignored" : result };
}

type Parsed = HandledEvent | "ignored" | DeliveryError;

function isEvent(parsed: Parsed): parsed is HandledEvent {
  return parsed !== "ignored" && !(parsed instanceof DeliveryError);
}

function parse(
  failure: ClaimedFailure,
  clock: { now: number; toleranceSeconds: number },
): Parsed {
  try {
    const parsed = parseEvent(textOf(failure), clock);
    return parsed.handled ? parsed.event : "ignored";
  } catch (thrown) {
    return toDeliveryError(thrown);
  }
}

function textOf({ body, body_encoding }: ClaimedFailure): string {
  return body_encoding === "base64" ? decodeBody(fromBase64(body)) : body;
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
