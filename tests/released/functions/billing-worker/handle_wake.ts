import {
  ANSWERS,
  DeliveryError,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import {
  deliverNotifications,
  type DeliveryOptions,
} from "./deliver_notifications.ts";
import { retryFailures, type RetryOptions } from "./retry_failures.ts";

/** What one run of the worker needs. */
export interface Worker extends RetryOptions, DeliveryOptions {}

/**
 * Answers one wake with one run of the worker: requested retries, then due
 * notifications. The reply has counts, so that the caller sees whether there was
 * anything to do.
 */
export async function handleWake(
  request: Request,
  worker: Worker,
): Promise<Response> {
  if (request.method !== "POST") {
    return new Response("", { status: 405, headers: { allow: "POST" } });
  }
  // Retries first, because an applied event may create a notification. If they
  // fail, notifications are still delivered.
  const retries = await doPart(retryFailures, {
    done: "failures retried",
    worker,
  });
  const notifications = await doPart(deliverNotifications, {
    done: "notifications delivered",
    worker,
  });
  const parts = [retries, notifications];
  const fault = parts.find((part) => part instanceof DeliveryError);
  if (fault === undefined) return Response.json({ retries, notifications });
  const { status, body } = ANSWERS[fault.code];
  return new Response(body, { status });
}

/**
 * Does one part of a run, logs the result, and returns its counts or its
 * failure.
 */
async function doPart<Counts extends { claimed: number }>(
  work: (worker: Worker) => Promise<Counts>,
  { done, worker }: { done: string; worker: Worker },
): Promise<Counts | DeliveryError> {
  try {
    const counts = await work(worker);
    if (counts.claimed > 0) worker.log("info", done, { counts });
    return counts;
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const { code, logMessage } = error;
    worker.log("error", "run failed", { code, error: logMessage });
    return error;
  }
}
