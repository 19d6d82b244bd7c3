import type { BillingEvent, Outcome } from "../_shared/billing/apply_events.ts";
import type { DatabaseClient } from "../_shared/billing/database.ts";
import { decodeBody } from "../_shared/billing/decode_body.ts";
import { DeliveryError, toDeliveryError } from "../_shared/billing/errors.ts";
import { isIdentifier } from "../_shared/billing/fields.ts";
import type { Log, LogFields } from "../_shared/billing/log.ts";
import { parseEvent } from "../_shared/billing/parse_event.ts";
import { describeFailedBody, recordFailure } from "./record_failure.ts";
import {
  isUnmapped,
  type UnmappedChoice,
} from "../_shared/billing/unmapped.ts";
import type { VerifiedDelivery } from "./verify_delivery.ts";

interface Options {
  /** Applies one event exactly once, maybe together with others. */
  readonly apply: (event: BillingEvent) => Promise<Outcome>;
  readonly database: DatabaseClient;
  /** Whether events of subscriptions that belong to no account fail. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** How far ahead of now an event may be dated, in seconds. */
  readonly toleranceSeconds: number;
  readonly log: Log;
  /** Called when an event may have made something due; it does not wait. */
  readonly wakeWorker: () => void;
  /** The clock, in milliseconds since the epoch. */
  readonly now: () => number;
  /** Collects what is known of the event, for the line about a failure. */
  readonly known: LogFields;
}

/** What the log says of events that have no effect here. */
const IGNORED = {
  not_handled: ["info", "event ignored"],
  other_mode: ["info", "event of the other mode ignored"],
  thin: [
    "warn",
    "thin event ignored, and its change is lost: at the provider, replace this destination by one with snapshot payloads",
  ],
} as const;

/**
 * Parses the event of a verified delivery and applies it.
 *
 * @throws {DeliveryError} After the failure is stored in `failed_events`; with
 * `failure_not_recorded` where that failed as well. `overloaded` is not stored:
 * nothing is wrong with the event. Where events of unmapped subscriptions are
 * ignored, they do not fail. Nor does an event that was applied before, such as
 * one that comes again in the shape of another API version.
 */
export async function processEvent(
  { provider, mode, body }: VerifiedDelivery,
  options: Options,
): Promise<void> {
  const { apply, database, log, now, known, wakeWorker } = options;
  const { unmappedSubscriptions, toleranceSeconds } = options;
  known.provider = provider;
  let text = "";
  try {
    text = decodeBody(body);
    const parsed = parseEvent(text, {
      now: now() / 1000,
      toleranceSeconds,
      mode,
    });
    if (parsed.handled) {
      const event = { ...parsed.event, provider };
      const outcome = await apply(event);
      // A duplicate too: the delivery before it may have ended, answer lost,
      // before it woke anybody.
      if (outcome !== "stale" && event.type === "invoice.payment_failed") {
        wakeWorker();
      }
    } else {
      const [level, message] = IGNORED[parsed.reason];
      log(level, message, { provider, ...loggable(parsed) });
    }
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const failed = await describeFailedBody(body);
    if (unmappedSubscriptions === "ignore" && isUnmapped(error, () => text)) {
      log("info", "unmapped event ignored", {
        provider,
        event_id: failed.eventId,
        type: failed.type,
        code: error.code,
        outcomes: { ignored: 1 },
      });
      return;
    }
    known.event_id = failed.eventId;
    known.type = failed.type;
    known.body_sha256 = failed.bodyHash;
    // One more call is what a receiver that holds too many cannot afford.
    if (error.code === "overloaded") throw error;
    const isOpen = await recordFailure(error, { provider, failed, database })
      .catch((fault: unknown) => {
        throw notRecorded(error, toDeliveryError(fault));
      });
    if (isOpen) throw error;
    // Such as one that was applied by a call whose answer was lost.
    if (failed.type === "invoice.payment_failed") wakeWorker();
    log("info", "duplicate of an applied event", {
      provider,
      event_id: failed.eventId,
      type: failed.type,
      code: error.code,
      outcomes: { duplicate: 1 },
    });
  }
}

function notRecorded(error: DeliveryError, fault: DeliveryError) {
  return new DeliveryError(
    "failure_not_recorded",
    `${error.code}, and failed_events has no row of it: ${fault.logMessage}`,
  );
}

/** Nothing checked the id and the type of an event that has no effect. */
function loggable({ id, type }: { id: unknown; type: string }): LogFields {
  return {
    event_id: isIdentifier(id) ? id : undefined,
    type: isIdentifier(type) ? type : undefined,
  };
}
