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
import { parseEvent } from "../_shared/billing/parse_event.ts";
import {
  isUnmapped,
  type UnmappedChoice,
} from "../_shared/billing/unmapped.ts";
import type { ClaimedFailure, RetryOutcome } from "./retry_queue.ts";

/** What is needed to apply the events of failures. */
export interface ApplyOptions {
  readonly database: DatabaseClient;
  /** What happens to events of subscriptions without an account. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Whether further failed payments of an invoice create no notification. */
  readonly oncePerInvoice: boolean;
  /** How far ahead of now an event may be dated, in seconds. */
  readonly toleranceSeconds: number;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** A claimed failure, with the result so far. */
export interface Retry<Result = RetryOutcome | DeliveryError> {
  readonly failure: ClaimedFailure;
  /** The event as text; empty if the body is not text. */
  readonly text: string;
  readonly result: Result;
}

/**
 * Applies the events of claimed failures in one call, and returns the result of
 * each, in the same order.
 *
 * @throws {DeliveryError} If the call fails.
 */
export async function applyFailures(
  claimed: readonly ClaimedFailure[],
  options: ApplyOptions,
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

/** Returns whether a result is this failure. */
export function hasFailed(
  result: Retry["result"] | undefined,
  code: ErrorCode,
): boolean {
  return result instanceof DeliveryError && result.code === code;
}

function ignoreUnmapped(
  retry: Retry,
  { unmappedSubscriptions }: ApplyOptions,
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
