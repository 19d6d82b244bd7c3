import {
  type BillingEvent,
  describeErased,
  type Outcome,
} from "../_shared/billing/database/apply_events.ts";
import type { EventSettings } from "../_shared/billing/events/event_settings.ts";
import type { DatabaseClient } from "../_shared/billing/database/client.ts";
import {
  DeliveryError,
  toDeliveryError,
  withLogFields,
} from "../_shared/billing/errors.ts";
import { isIdentifier } from "../_shared/billing/events/fields.ts";
import { withPlaces } from "../_shared/billing/events/format.ts";
import type { LogFields, LogLevel } from "../_shared/billing/log.ts";
import { isUnmapped } from "../_shared/billing/database/database_errors.ts";
import {
  decodeBody,
  parseEvent,
  readEventId,
} from "../_shared/billing/events/parse_event.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../_shared/billing/database/record_failure.ts";
import type { VerifiedDelivery } from "./verify_delivery.ts";
import type { Queue } from "./wake_worker.ts";

export interface ProcessOptions extends Omit<EventSettings, "maxBodyBytes"> {
  readonly apply: (event: BillingEvent) => Promise<Outcome>;
  readonly database: DatabaseClient;
  /** Called if there may be something to do in a queue; returns at once. */
  readonly wakeWorker: (queue: Queue) => void;
  readonly clock: () => number;
}

/** The log line of a delivery that did not fail. */
type LogLine = Readonly<{
  level: LogLevel;
  message: string;
  outcome: string;
  fields: LogFields;
}>;

const IGNORED = {
  not_handled: ["info", "event ignored", "ignored"],
  no_subscription: ["info", "event ignored", "ignored"],
  other_mode: ["info", "event of the other mode ignored", "ignored"],
  connect: ["info", "event of a connected account ignored", "connect_ignored"],
  thin: [
    "warn",
    "thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads",
    "ignored",
  ],
} as const;

/** The type of the event that the doctor sends. */
export const PING_TYPE = "doctor.ping";

/**
 * Applies the event of a verified delivery, and returns its log line. It is not an error
 * if the event was applied before (it may come again in the shape of another API version).
 *
 * @throws {DeliveryError} The failure, with fields for the log, after it is stored in
 * `failed_events`; `failure_not_recorded` if it could not be stored.
 */
export async function processEvent(
  delivery: VerifiedDelivery,
  options: ProcessOptions,
): Promise<LogLine> {
  const { format } = delivery.reading;
  const derivedId = await readEventId(delivery.body, {
    ...delivery,
    ...options,
    format,
  });
  const identified = { ...delivery, derivedId };
  try {
    return await applyOrIgnore(identified, options);
  } catch (thrown) {
    const error = withPlaces(toDeliveryError(thrown), format);
    return await handleFailure(error, identified, options);
  }
}

/** A delivery, with the id of its event if the body has none. */
type Identified = VerifiedDelivery & { readonly derivedId: string | undefined };

async function applyOrIgnore(
  { provider, reading, derivedId, body }: Identified,
  { apply, wakeWorker, clock, ...settings }: ProcessOptions,
): Promise<LogLine> {
  const parsed = parseEvent(decodeBody(body), {
    ...settings,
    ...reading,
    id: derivedId,
    nowSeconds: clock() / 1000,
  });
  if (parsed.isIgnored) {
    const [level, message, outcome] = IGNORED[parsed.reason];
    // The id and the type of an ignored event are not validated.
    const event_id = isIdentifier(parsed.id) ? parsed.id : undefined;
    const type = isIdentifier(parsed.type) ? parsed.type : undefined;
    return { level, message, outcome, fields: { provider, event_id, type } };
  }

  const event = { ...parsed.event, provider };
  const { event_id, type, subscription_id } = event;
  const outcome = await apply(event).catch((thrown) => {
    throw withLogFields(toDeliveryError(thrown), { subscription_id });
  });
  const fields = { provider, event_id, type, subscription_id };
  if (outcome === "erased") {
    return { ...describeErased(event.kind), outcome, fields };
  }

  // Also for a duplicate: the first delivery may have ended before it woke the worker.
  if (outcome !== "stale" && event.payment !== undefined) {
    wakeWorker("notifications");
  }
  if (parsed.isAccountUnusable) {
    const message =
      "checkout names no account: its accountId or client_reference_id cannot be an account ID";
    return { level: "warn", message, outcome, fields };
  }
  return { level: "info", message: "events applied", outcome, fields };
}

async function handleFailure(
  error: DeliveryError,
  { provider, reading, derivedId, acknowledges, body }: Identified,
  { database, unmappedSubscriptions, wakeWorker }: ProcessOptions,
): Promise<LogLine> {
  const { format } = reading;
  const { code } = error;
  const { failed, bodyHash } = await describeFailedBody(body, {
    format,
    derivedId,
  });
  const logEvent = {
    provider,
    event_id: failed.event_id,
    type: failed.type,
    ...error.logFields,
  };
  const fields = { ...logEvent, code };
  const logFields = { ...logEvent, body_sha256: bodyHash };

  // With `subscription_unknown` or `account_unknown`, so the body is JSON, not base64.
  if (
    unmappedSubscriptions === "ignore" && isUnmapped(error, failed.body, format)
  ) {
    const message = "unmapped event ignored";
    return { level: "info", message, outcome: "ignored", fields };
  }

  // An overloaded webhook must not make one more call per event, a refused key says
  // nothing about it, and no provider sent the doctor's event.
  if (
    code === "overloaded" || code === "key_refused" ||
    logEvent.type === PING_TYPE
  ) {
    throw withLogFields(error, logFields);
  }

  const stored = await recordFailure(error, { provider, failed, database })
    .catch((thrown: unknown) => {
      const fault = toDeliveryError(thrown);
      // Nothing works until the key is right, so the error names the key.
      if (fault.code === "key_refused") throw withLogFields(fault, logFields);
      throw new DeliveryError(
        "failure_not_recorded",
        `${code}, and the failure could not be stored in failed_events: ${fault.logMessage}`,
        { logFields },
      );
    });
  if (stored === "erased") {
    return { ...describeErased(failed.kind), outcome: stored, fields };
  }
  if (stored === "applied") {
    // For example by a call whose answer was lost.
    wakeWorker("notifications");
    const message = "duplicate of an applied event";
    return { level: "info", message, outcome: "duplicate", fields };
  }

  if (stored === "retry" || acknowledges) wakeWorker("retries");
  if (!acknowledges) throw withLogFields(error, logFields);

  // The provider will not send it again: alert the operator now.
  wakeWorker("notifications");
  return {
    level: "error",
    message: "failure acknowledged",
    outcome: "acknowledged",
    fields: { ...logFields, code, error: error.logMessage },
  };
}
