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
import { verifyDelivery } from "./verify_delivery.ts";

/** Only a hint: providers follow their own schedules. */
const RETRY_AFTER_SECONDS = "5";

const TEXT = { "content-type": "text/plain; charset=utf-8" } as const;

/** What the receiver needs to handle a delivery. */
export interface Receiver extends ProcessOptions {
  readonly providers: readonly SignatureProvider[];
  readonly body: BodyLimits;
  readonly log: Log;
}

/**
 * Answers one request: 200 if its event is applied, was applied before or has no
 * effect here. Any other status makes the provider retry. Each delivery has one
 * log line.
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
    const { level, message, fields } = await processEvent(verified, receiver);
    log(level, message, { ...fields, duration_ms: clock() - startedMs });
    return respondOk();
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    logFailure(error, { log, durationMs: clock() - startedMs });
    return respondError(error);
  }
}

/** Returns the reply to a delivery that needs nothing more. */
export function respondOk(): Response {
  return new Response("OK", { status: 200, headers: TEXT });
}

/** Returns the reply to a failed delivery. It depends only on the code. */
export function respondError({ code }: DeliveryError): Response {
  const { status, body } = ANSWERS[code];
  const headers = new Headers(TEXT);
  if (status === 405) headers.set("allow", "POST");
  if (status === 503) headers.set("retry-after", RETRY_AFTER_SECONDS);
  return new Response(body, { status, headers });
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
