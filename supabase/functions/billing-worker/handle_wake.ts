import type { DatabaseClient } from "../_shared/database.ts";
import { ANSWERS, toDeliveryError } from "../_shared/errors.ts";
import type { Log } from "../_shared/log.ts";
import type { Channel } from "./channels/channel.ts";
import { deliverNotifications } from "./deliver_notifications.ts";
import { retryFailures } from "./retry_failures.ts";

/** What a turn of the worker needs of the outside. */
export interface Worker {
  readonly database: DatabaseClient;
  /** Undefined while none is configured. */
  readonly channel: Channel | undefined;
  readonly log: Log;
  /** The clock, in milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * One turn of the worker: the retries that somebody asked for, and a batch of
 * the notifications that are due. It answers with counts, so
 * that whoever woke it knows whether there was anything to do.
 */
export async function handleWake(
  request: Request,
  worker: Worker,
): Promise<Response> {
  if (request.method !== "POST") {
    return new Response("", { status: 405, headers: { allow: "POST" } });
  }
  try {
    // First, because what is applied may owe a notification.
    const retries = await retryFailures(worker);
    if (retries.claimed > 0) {
      worker.log("info", "failures retried", { counts: retries });
    }
    const notifications = await deliverNotifications(worker);
    if (notifications.claimed > 0) {
      worker.log("info", "notifications delivered", { counts: notifications });
    }
    return Response.json({ retries, notifications });
  } catch (thrown) {
    const { code, logMessage } = toDeliveryError(thrown);
    worker.log("error", "turn failed", { code, error: logMessage });
    return new Response(ANSWERS[code].body, { status: ANSWERS[code].status });
  }
}
