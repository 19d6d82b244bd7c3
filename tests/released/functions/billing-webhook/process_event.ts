import type { BillingEvent, Outcome } from "../_shared/billing/apply_events.ts";
import type { DatabaseClient } from "../_shared/billing/database.ts";
import { decodeBody } from "../_shared/billing/decode_body.ts";
import {
  DeliveryError,
  toDeliveryError,
  withLogFields,
} from "../_shared/billing/errors.ts";
import { isIdentifier } from "../_shared/billing/fields.ts";
import type { Log, LogFields } from "../_shared/billing/log.ts";
import { parseEvent } from "../_shared/billing/parse_event.ts";
import { describeFailedBody, recordFailure } from "./record_failure.ts";
import {
  isUnmapped,
  type UnmappedChoice,
} from "../_shared/billing/unmapped.ts";
import type { VerifiedDelivery } from "./verify_delivery.ts";

/** What is needed to process an event. */
export interface ProcessOptions {
  /** Applies one event exactly once, maybe together with others. */
  readonly apply: (event: BillingEvent) => Promise<Outcome>;
  /** Where failures are recorded. */
  readonly database: DatabaseClient;
  /** What happens to events of subscriptions without an account. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /**
   * How far a signature's time may be from now, in either direction, and an
   * event's time ahead of now, in seconds.
   */
  readonly toleranceSeconds: number;
  readonly log: Log;
  /** Called if an event may have created a notification; returns at once. */
  readonly wakeWorker: () => void;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** The log lines for events that have no effect here. */
const IGNORED = {
  not_handled: ["info", "event ignored"],
  other_mode: ["info", "event of the other mode ignored"],
  thin: [
    "warn",
    "thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads",
  ],
} as const;

/**
 * Applies the event of a verified delivery. An event that has no effect here is
 * logged. An event that fails is stored in `failed_events`.
 *
 * Two kinds of failed events are not errors: an event that was applied before,
 * such as one that comes again in the shape of another API version, and an
 * event of an unmapped subscription, if these are ignored.
 *
 * @throws {DeliveryError} The failure, with fields for the log, after it is
 * stored; `failure_not_recorded` if it could not be stored. `overloaded` is not
 * stored, because nothing is wrong with the event.
 */
export async function processEvent(
  delivery: VerifiedDelivery,
  options: ProcessOptions,
): Promise<void> {
  try {
    await applyOrIgnore(delivery, options);
  } catch (thrown) {
    await handleFailure(toDeliveryError(thrown), delivery, options);
  }
}

async function applyOrIgnore(
  { provider, mode, body }: VerifiedDelivery,
  { apply, toleranceSeconds, log, wakeWorker, clock }: ProcessOptions,
): Promise<void> {
  const parsed = parseEvent(decodeBody(body), {
    nowSeconds: clock() / 1000,
    toleranceSeconds,
    mode,
  });
  if (!parsed.handled) {
    const [level, message] = IGNORED[parsed.reason];
    log(level, message, { provider, ...loggable(parsed) });
    return;
  }
  const event = { ...parsed.event, provider };
  const outcome = await apply(event);
  // A duplicate too: the first delivery may have ended before it woke the worker.
  if (outcome !== "stale" && event.type === "invoice.payment_failed") {
    wakeWorker();
  }
}

async function handleFailure(
  error: DeliveryError,
  { provider, body }: VerifiedDelivery,
  { database, unmappedSubscriptions, log, wakeWorker }: ProcessOptions,
): Promise<void> {
  const failed = await describeFailedBody(body);
  const event = { provider, event_id: failed.eventId, type: failed.type };
  const { code } = error;

  // The codes in question imply JSON, so the body is text and not base64.
  if (unmappedSubscriptions === "ignore" && isUnmapped(error, failed.body)) {
    const outcomes = { ignored: 1 };
    log("info", "unmapped event ignored", { ...event, code, outcomes });
    return;
  }
  const logFields = { ...event, body_sha256: failed.bodyHash };
  // An overloaded receiver must not make one more call per event.
  if (code === "overloaded") throw withLogFields(error, logFields);
  const isOpen = await recordFailure(error, { provider, failed, database })
    .catch((fault: unknown) => {
      const notRecorded = failureNotRecorded(error, toDeliveryError(fault));
      throw withLogFields(notRecorded, logFields);
    });
  if (isOpen) throw withLogFields(error, logFields);
  // The event was applied, for example by a call whose answer was lost.
  if (failed.type === "invoice.payment_failed") wakeWorker();
  const outcomes = { duplicate: 1 };
  log("info", "duplicate of an applied event", { ...event, code, outcomes });
}

function failureNotRecorded(
  error: DeliveryError,
  fault: DeliveryError,
): DeliveryError {
  return new DeliveryError(
    "failure_not_recorded",
    `${error.code}, and the failure could not be stored in failed_events: ${fault.logMessage}`,
  );
}

/**
 * Returns id and type, if usable: for an ignored event, nothing has checked
 * them.
 */
function loggable({ id, type }: { id: unknown; type: string }): LogFields {
  return {
    event_id: isIdentifier(id) ? id : undefined,
    type: isIdentifier(type) ? type : undefined,
  };
}
