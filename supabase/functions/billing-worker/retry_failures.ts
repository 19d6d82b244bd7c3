import {
  applyEvents,
  applyWithHandler,
  describeErased,
  type Outcome,
  type RetriedEvent,
} from "../_shared/billing/database/apply_events.ts";
import type {
  EventSettings,
} from "../_shared/billing/events/event_settings.ts";
import {
  callFunction,
  type DatabaseClient,
  type DatabaseFunctions,
} from "../_shared/billing/database/client.ts";
import {
  DeliveryError,
  type ErrorCode,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import { fromBase64 } from "../_shared/billing/events/fields.ts";
import type { Log } from "../_shared/billing/log.ts";
import { isUnmapped } from "../_shared/billing/database/database_errors.ts";
import { whyIgnored } from "../_shared/billing/settings/why_ignored.ts";
import {
  decodeBody,
  parseEvent,
  type ReadingSettings,
} from "../_shared/billing/events/parse_event.ts";
import { settingsPrefix } from "../_shared/billing/settings/providers.ts";
import { describeText } from "../_shared/billing/database/record_failure.ts";
import { type Format, withPlaces } from "../_shared/billing/events/format.ts";

/** A claimed failure. The id in a repaired payload may differ from that of its row. */
type ClaimedFailure = Readonly<
  DatabaseFunctions["billing_claim_failed_events"]["Returns"][number]
>;

/** `ignored`: it is unmapped and such events are ignored, or it was erased with its account. */
type RetryOutcome = Exclude<Outcome, "erased"> | "ignored";

/** `untried`: the run had no time for it. */
type RetryResult = RetryOutcome | "untried" | DeliveryError;

export type RetryCounts = Record<"claimed" | "failed" | RetryOutcome, number>;

export const NO_RETRIES: RetryCounts = {
  claimed: 0,
  failed: 0,
  applied: 0,
  duplicate: 0,
  stale: 0,
  ignored: 0,
};

export interface RetryOptions extends Omit<EventSettings, "maxBodyBytes"> {
  readonly database: DatabaseClient;
  /** Throws if a setting is wrong. */
  readonly readingSettings: (provider: string) => ReadingSettings;
  readonly leaseId: string;
  readonly log: Log;
  readonly clock: () => number;
}

/** The maximum; `billing_claim_failed_events` returns fewer if their bodies are large. */
const BATCH_SIZE = 25;

/** For the retries of one run; the rest waits for the next run. */
const RETRY_TIME_MS = 20_000;

/** Per run. Supabase gives a request 2 s of processor time. */
const RETRY_LIMIT = 1_000;

/**
 * After this time, a batch starts no more handlers: each may take 2.5 s, and other
 * failures wait. The rest of the batch is left for the next one.
 */
const HANDLER_TIME_MS = 1_000;

const CALL_LIMIT = { timeLimitMs: 5_000 };

/**
 * Retries the failures for which a retry was requested or is due, through the code
 * that handles deliveries, until none is left or the time of the run is over. The
 * database checks whether an event was applied meanwhile, so none is applied
 * twice. If another run has the queue, nothing is claimed.
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

/** Returns one result per failure that was claimed. */
async function retryBatch(
  options: RetryOptions,
): Promise<readonly RetryResult[]> {
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

type ReadFailure = Readonly<{
  failure: ClaimedFailure;
  /** Undefined if the provider's setting is wrong. */
  format: Format | undefined;
  /** The event as text; empty if the body is not text. */
  text: string;
  /** The event to apply, or else `fault`: why it cannot be applied. */
  event?: RetriedEvent;
  fault?: DeliveryError;
}>;

async function applyAll(
  failures: readonly ReadFailure[],
  options: RetryOptions,
): Promise<RetryResult[]> {
  const events = failures.flatMap(({ event }) => event ?? []);
  const applied = await applyInOrder(events, options);
  const outcomes = failWithLockedCreations(events, applied);

  return failures.map(({ format, text, event, fault }) => {
    const result = event ? outcomes[events.indexOf(event)]! : fault!;
    if (!(result instanceof DeliveryError) || !format) return result;

    const isIgnored = options.unmappedSubscriptions === "ignore" &&
      isUnmapped(result, text, format);
    return isIgnored ? "ignored" : withPlaces(result, format);
  });
}

/** Applies events in their order: those with a handler alone, others together. */
async function applyInOrder(
  events: readonly RetriedEvent[],
  options: RetryOptions,
): Promise<RetryResult[]> {
  const results: RetryResult[] = [];
  let handlersEndMs: number | undefined;
  for (const call of callsFor(events)) {
    if (call.hasHandler) {
      handlersEndMs ??= options.clock() + HANDLER_TIME_MS;
      if (options.clock() >= handlersEndMs) break;
    }
    results.push(...await apply(call, options));
  }

  const untried = events.slice(results.length);
  return [...results, ...untried.map(() => "untried" as const)];
}

type Call = { hasHandler: boolean; events: RetriedEvent[] };

function callsFor(events: readonly RetriedEvent[]): Call[] {
  const calls: Call[] = [];
  for (const event of events) {
    const hasHandler = event.payload !== undefined;
    const last = calls.at(-1);
    if (hasHandler || last === undefined || last.hasHandler) {
      calls.push({ hasHandler, events: [event] });
    } else {
      last.events.push(event);
    }
  }
  return calls;
}

/**
 * Applies events in one call. If the call fails, each of them has failed, unless the
 * fault says nothing about them: the database was out of reach, or several events took
 * too long or lost their connection. In the next run, `billing_claim_failed_events`
 * returns each of those alone.
 *
 * @throws {DeliveryError} Such a fault.
 */
async function apply(
  { hasHandler, events }: Call,
  options: RetryOptions,
): Promise<readonly RetryResult[]> {
  try {
    const outcomes = hasHandler
      ? [await applyWithHandler(events[0]!, options)]
      : await applyEvents(events, options);

    return outcomes.map((outcome, i) => {
      if (outcome !== "erased") return outcome;
      const { kind, provider, event_id } = events[i]!;
      const { level, message } = describeErased(kind);
      options.log(level, message, { provider, event_id });
      return "ignored";
    });
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    // A single event may cause this each time, and block those behind it.
    const isCausedByEvent = events.length === 1 &&
      (error.isTimeout || error.sqlState === "PGRST001");
    const saysNothing = error.code === "key_refused" ||
      error.code === "database_unavailable" && !isCausedByEvent;
    if (saysNothing) throw error;
    return events.map(() => error);
  }
}

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
    const event = { ...parsed.event, provider, retry };
    return { failure, format, text, event };
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const why = whyNoLongerRead(error, { failure, format, text });
    const fault = why ? new DeliveryError("no_longer_handled", why) : error;
    return { failure, format, text, fault };
  }
}

/** Returns the setting because of which a failure cannot be read, if there is one. */
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

/** The codes of an event that found no record. */
const UNRECORDED: readonly ErrorCode[] = [
  "subscription_unknown",
  "creation_pending",
  "account_unknown",
];

/**
 * If the creation of an event's subscription is in this batch and its record is locked,
 * the event fails with `record_locked` too, so that both are retried together.
 */
function failWithLockedCreations(
  events: readonly RetriedEvent[],
  outcomes: readonly RetryResult[],
): RetryResult[] {
  const locked = new Map<unknown, RetryResult>();
  for (const [index, outcome] of outcomes.entries()) {
    if (!hasFailed(outcome, "record_locked")) continue;
    locked.set(events[index]!.subscription_id, outcome);
  }

  return outcomes.map((outcome, index) => {
    if (!hasFailed(outcome, ...UNRECORDED)) return outcome;
    return locked.get(events[index]!.subscription_id) ?? outcome;
  });
}

function hasFailed(result: RetryResult, ...codes: ErrorCode[]): boolean {
  return result instanceof DeliveryError && codes.includes(result.code);
}

/** Describes the current payload, because it may have been repaired. */
function settledResult(
  { failure: { provider, event_id }, format, text }: ReadFailure,
  result: RetryResult,
) {
  const described = format && describeText(text, format);
  const outcome = typeof result === "string"
    ? { outcome: result }
    : { outcome: "failed", error_code: result.code, error: result.message };
  return { provider, event_id, ...described, ...outcome };
}
