/** How the worker applies events: those of stored failures, and those that never came. */
import {
  applyEvents,
  applyWithHandler,
  type BillingEvent,
  describeErased,
  type Outcome,
} from "../_shared/billing/database/apply_events.ts";
import type { DatabaseClient } from "../_shared/billing/database/client.ts";
import { isUnmapped } from "../_shared/billing/database/database_errors.ts";
import {
  DeliveryError,
  type ErrorCode,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import type { EventSettings } from "../_shared/billing/events/event_settings.ts";
import { type Format, withPlaces } from "../_shared/billing/events/format.ts";
import type { ReadingSettings } from "../_shared/billing/events/parse_event.ts";
import type { Log } from "../_shared/billing/log.ts";

/** `ignored`: it is unmapped and such events are ignored, or it was erased with its account. */
type AppliedOutcome = Exclude<Outcome, "erased"> | "ignored";

/** `untried`: the run had no time for it. */
export type ApplyResult = AppliedOutcome | "untried" | DeliveryError;

export interface ApplyAllOptions extends Omit<EventSettings, "maxBodyBytes"> {
  readonly database: DatabaseClient;
  readonly leaseId: string;
  /** Throws if a setting is wrong. */
  readonly readingSettings: (provider: string) => ReadingSettings;
  readonly log: Log;
  readonly clock: () => number;
}

export type ReadEvent = Readonly<{
  /** Undefined if the provider's setting is wrong. */
  format: Format | undefined;
  /** Empty if the body is not text. */
  text: string;
  event?: BillingEvent;
  /** If there is no `event`: why it cannot be applied. */
  fault?: DeliveryError;
}>;

/** After this time, a batch starts no more handlers: each may take 2.5 s. */
const HANDLER_TIME_MS = 1_000;

/**
 * Applies events in their order, each exactly once, and returns a result for each.
 *
 * @throws {DeliveryError} If a call says nothing about its events.
 */
export async function applyAll(
  all: readonly ReadEvent[],
  options: ApplyAllOptions,
): Promise<ApplyResult[]> {
  const events = all.flatMap(({ event }) => event ?? []);
  const applied = await applyInOrder(events, options);
  const outcomes = failWithLockedCreations(events, applied);

  return all.map(({ format, text, event, fault }) => {
    const result = event ? outcomes[events.indexOf(event)]! : fault!;
    if (!(result instanceof DeliveryError) || !format) return result;

    const isIgnored = options.unmappedSubscriptions === "ignore" &&
      isUnmapped(result, text, format);
    return isIgnored ? "ignored" : withPlaces(result, format);
  });
}

/** Applies events in their order: those with a handler alone, others together. */
async function applyInOrder(
  events: readonly BillingEvent[],
  options: ApplyAllOptions,
): Promise<ApplyResult[]> {
  const results: ApplyResult[] = [];
  let handlersEndMs: number | undefined;
  while (results.length < events.length) {
    const left = events.slice(results.length);
    const nextAlone = left.findIndex(hasHandler);
    if (nextAlone === 0) {
      handlersEndMs ??= options.clock() + HANDLER_TIME_MS;
      if (options.clock() >= handlersEndMs) break;
    }
    // The one that has a handler, or all before it.
    const together = nextAlone < 0 ? left : left.slice(0, nextAlone || 1);
    results.push(...await apply(together, options));
  }

  return events.map((_, index) => results[index] ?? "untried");
}

function hasHandler({ payload }: BillingEvent): boolean {
  return payload !== undefined;
}

/**
 * Applies events in one call. If it fails, each of them has failed.
 *
 * @throws {DeliveryError} If the fault says nothing about the events: the database was out
 * of reach, or several of them took too long or lost their connection. In the next run,
 * `billing_claim_failed_events` returns each of those alone.
 */
async function apply(
  events: readonly BillingEvent[],
  options: ApplyAllOptions,
): Promise<readonly ApplyResult[]> {
  try {
    const outcomes = events.some(hasHandler) // Then it is alone.
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
 * If the creation of an event's subscription is in this batch and its record is locked,
 * the event fails with `record_locked` too, so that both are retried together.
 */
function failWithLockedCreations(
  events: readonly BillingEvent[],
  outcomes: readonly ApplyResult[],
): ApplyResult[] {
  const locked = new Map<unknown, ApplyResult>();
  for (const [index, outcome] of outcomes.entries()) {
    if (!hasFailed(outcome, "record_locked")) continue;
    locked.set(events[index]!.subscription_id, outcome);
  }

  return outcomes.map((outcome, index) => {
    const hasNoRecord = hasFailed(
      outcome,
      "subscription_unknown",
      "creation_pending",
      "account_unknown",
    );
    return hasNoRecord
      ? locked.get(events[index]!.subscription_id) ?? outcome
      : outcome;
  });
}

export function hasFailed(result: ApplyResult, ...codes: ErrorCode[]): boolean {
  return result instanceof DeliveryError && codes.includes(result.code);
}
