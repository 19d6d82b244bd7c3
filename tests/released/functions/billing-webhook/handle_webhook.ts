import {
  ANSWERS,
  type DeliveryError,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import type { Log } from "../_shared/billing/log.ts";
import { processEvent, type ProcessOptions } from "./process_event.ts";
import type { SignatureProvider } from "./providers.ts";
import type { BodyLimits } from "./read_body.ts";
import { readDelivery } from "./read_delivery.ts";
import { respondError, respondOk } from "./respond.ts";
import { verifyDelivery } from "./verify_delivery.ts";

/** What the receiver needs to handle a delivery. */
export interface Receiver extends ProcessOptions {
  readonly providers: readonly SignatureProvider[];
  readonly body: BodyLimits;
}

/**
 * Answers one request: 200 if its event is applied, was applied before or has no
 * effect here. Any other status makes the provider retry, and the failure is
 * logged.
 */
export async function handleWebhook(
  request: Request,
  receiver: Receiver,
): Promise<Response> {
  const { providers, toleranceSeconds, log, clock } = receiver;
  const startedMs = clock();
  try {
    const delivery = await readDelivery(request, receiver.body);
    const verified = await verifyDelivery(delivery, {
      providers,
      toleranceSeconds,
      nowSeconds: startedMs / 1000,
    });
    await processEvent(verified, receiver);
    return respondOk();
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    logFailure(error, { log, durationMs: clock() - startedMs });
    return respondError(error);
  }
}

function logFailure(
  error: DeliveryError,
  { log, durationMs }: { log: Log; durationMs: number },
): void {
  const { status } = ANSWERS[error.code];
  log(status < 500 ? "warn" : "error", "delivery failed", {
    ...error.logFields,
    duration_ms: durationMs,
    code: error.code,
    status,
    error: error.logMessage,
  });
}
