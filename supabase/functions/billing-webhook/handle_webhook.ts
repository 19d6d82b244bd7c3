import { ERRORS, toDeliveryError } from "../_shared/billing/errors.ts";
import type { Log } from "../_shared/billing/log.ts";
import { processEvent, type ProcessOptions } from "./process_event.ts";
import type { SignatureProvider } from "./signatures/signature_providers.ts";
import type { BodyLimits } from "./read_body.ts";
import { readDelivery } from "./read_delivery.ts";
import { verifyDelivery } from "./verify_delivery.ts";

/** Only a hint: providers follow their own schedules. */
const RETRY_AFTER_SECONDS = "5";

const TEXT = { "content-type": "text/plain; charset=utf-8" } as const;

export interface Webhook extends ProcessOptions {
  readonly providers: readonly SignatureProvider[];
  readonly body: BodyLimits;
  readonly log: Log;
}

/**
 * Answers one request, and writes one log line: 200 if its event is applied, was applied
 * before or has no effect here, or if its failure is stored and acknowledged.
 */
export async function handleWebhook(
  request: Request,
  webhook: Webhook,
): Promise<Response> {
  const { log, clock } = webhook;
  const startedMs = clock();

  try {
    const delivery = await readDelivery(request, webhook.body);
    const verified = await verifyDelivery(delivery, {
      ...webhook,
      nowSeconds: startedMs / 1000,
    });

    const { level, message, outcome, fields } = await processEvent(
      verified,
      webhook,
    );
    log(level, message, {
      ...fields,
      outcomes: { [outcome]: 1 },
      duration_ms: clock() - startedMs,
    });
    return new Response("OK", { status: 200, headers: TEXT });
  } catch (thrown) {
    const { code, logMessage, logFields } = toDeliveryError(thrown);
    const { status, body } = ERRORS[code];
    log(status < 500 ? "warn" : "error", "delivery failed", {
      ...logFields,
      duration_ms: clock() - startedMs,
      code,
      status,
      error: logMessage,
    });

    const headers = new Headers(TEXT);
    if (status === 405) headers.set("allow", "POST");
    if (status === 503) headers.set("retry-after", RETRY_AFTER_SECONDS);
    return new Response(body, { status, headers });
  }
}
