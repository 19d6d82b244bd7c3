import type { BillingEvent, Outcome } from "../_shared/billing/apply_events.ts";
import type { DatabaseClient } from "../_shared/billing/database.ts";
import {
  ANSWERS,
  type DeliveryError,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import type { Log, LogFields } from "../_shared/billing/log.ts";
import type { UnmappedChoice } from "../_shared/billing/unmapped.ts";
import { processEvent } from "./process_event.ts";
import type { Provider } from "./providers.ts";
import type { BodyLimits } from "./read_body.ts";
import { readDelivery } from "./read_delivery.ts";
import { respondError, respondOk } from "./respond.ts";
import { verifyDelivery } from "./verify_delivery.ts";

/** What handling a delivery needs of the outside. */
export interface Receiver {
  readonly providers: readonly Provider[];
  /**
   * How far a signature's time may be from now, on both sides, and an event's
   * ahead of now, in seconds.
   */
  readonly toleranceSeconds: number;
  readonly body: BodyLimits;
  /** Whether events of subscriptions that belong to no account fail. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Applies one event exactly once, maybe together with others. */
  readonly apply: (event: BillingEvent) => Promise<Outcome>;
  /** Where failures are recorded. */
  readonly database: DatabaseClient;
  readonly log: Log;
  /** Called when an event has made something due; it does not wait. */
  readonly wakeWorker: () => void;
  /** The clock, in milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Answers one request: 200 where its event is applied, was applied before or
 * needs no applying. Anything else makes the provider retry, and has a line in
 * the log.
 */
export async function handleWebhook(
  request: Request,
  receiver: Receiver,
): Promise<Response> {
  const started = receiver.now();
  const known: LogFields = {};
  try {
    const delivery = await readDelivery(request, receiver.body);
    const verified = await verifyDelivery(delivery, {
      ...receiver,
      now: started / 1000,
    });
    await processEvent(verified, { ...receiver, known });
    return respondOk();
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const duration_ms = receiver.now() - started;
    logFailure(error, { log: receiver.log, known: { ...known, duration_ms } });
    return respondError(error);
  }
}

function logFailure(
  error: DeliveryError,
  { log, known }: { log: Log; known: LogFields },
): void {
  const { status } = ANSWERS[error.code];
  log(status < 500 ? "warn" : "error", "delivery failed", {
    ...known,
    code: error.code,
    status,
    error: error.logMessage,
  });
}
