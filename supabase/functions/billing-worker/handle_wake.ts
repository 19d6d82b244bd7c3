import {
  handlerName,
  type PlanItem,
} from "../_shared/billing/events/event_settings.ts";
import { callFunction } from "../_shared/billing/database/client.ts";
import {
  type DeliveryError,
  ERRORS,
  toDeliveryError,
} from "../_shared/billing/errors.ts";
import {
  deliverAlerts,
  deliverNotifications,
  type DeliveryOptions,
  NO_NOTIFICATIONS,
  RUN_LIMIT,
} from "./deliver_notifications.ts";
import type { FormatName } from "../_shared/billing/events/formats.ts";
import {
  NO_RETRIES,
  retryFailures,
  type RetryOptions,
} from "./retry_failures.ts";

/** What a run works on: each is held by one run at a time. */
type Queue = "retries" | "notifications";

/** Settings of the deployment that are no secret. */
export interface Settings {
  /** The providers whose stored failures are answered 200. */
  readonly acknowledging: readonly string[];
  readonly hasAlerts: boolean;
  readonly handledTypes: readonly string[];
  readonly handledTypesFault: string | undefined;
  readonly accountFromCheckout: boolean;
  readonly notify: readonly string[];
  readonly planItem: PlanItem;
  /** Of each provider whose setting is right. */
  readonly formats: Readonly<Record<string, FormatName>>;
}

/** What one run of the worker needs, besides what each run makes anew. */
export type Worker = Omit<
  Run,
  "leaseId" | "endMs" | "limit" | "isScheduled" | "handlers"
>;

interface Run extends RetryOptions, DeliveryOptions {
  /** What the doctor is told: it cannot read the settings of a project. */
  readonly settings?: Settings;
  /** Whether the schedule has woken it: the webhook names a queue. */
  readonly isScheduled: boolean;
}

/**
 * For the notifications of one run; the rest waits for the next run. A little less
 * than the interval of the schedule (a minute): the last batch should have ended
 * when the schedule wakes the next run, which finds nothing while this one goes on.
 */
export const RUN_TIME_MS = 55_000;

const RELEASE_LIMIT = { timeLimitMs: 5_000 };

/**
 * Answers one wake with one run of the worker: failures to retry, and at the same
 * time due notifications; with `?queue=retries` or `?queue=notifications` those of
 * that queue, and with another one nothing. The reply has counts, so that the caller
 * sees whether there was anything to do.
 *
 * Alerts wait until the retries of the run have ended, so that the operator is not
 * alerted to failures that are just being resolved.
 *
 * A run holds the lease of a queue while it works on it. The two queues are
 * independent: one run may have the retries while another one delivers.
 */
export async function handleWake(
  request: Request,
  worker: Worker,
): Promise<Response> {
  if (request.method !== "POST") {
    return new Response("", { status: 405, headers: { allow: "POST" } });
  }
  const only = new URL(request.url).searchParams.get("queue");
  const isScheduled = only === null;
  const { types, fault } = worker.handledTypes;
  // With a fault, no event is lost: it is stored as a failure.
  const handlers = isScheduled && fault === undefined
    ? [...types].map(handlerName)
    : undefined;
  const run: Run = {
    ...worker,
    leaseId: crypto.randomUUID(),
    endMs: worker.clock() + RUN_TIME_MS,
    isScheduled,
    handlers,
  };
  const counts = {
    retries: { ...NO_RETRIES },
    alerts: { ...NO_NOTIFICATIONS },
    notifications: { ...NO_NOTIFICATIONS },
  };
  const faults: DeliveryError[] = [];
  const limit = () => RUN_LIMIT - counts.notifications.claimed;

  /** Does one part; logs its failure, or what is done if it is anything. */
  async function doPart(
    part: keyof typeof counts,
    done: string,
    work: (run: Run) => Promise<Record<string, number>>,
  ): Promise<boolean> {
    try {
      const results = await work({ ...run, limit: limit() });
      const sums: Record<string, number> = counts[part];
      for (const [name, count] of Object.entries(results)) sums[name]! += count;
      if (results["claimed"]! > 0) run.log("info", done, { counts: results });
      return true;
    } catch (thrown) {
      const error = toDeliveryError(thrown);
      const { code, logMessage } = error;
      run.log("error", "run failed", { code, error: logMessage });
      faults.push(error);
      return false;
    }
  }
  const retry = () => doPart("retries", "failures retried", retryFailures);
  const alert = () => doPart("alerts", "alerts delivered", deliverAlerts);
  const deliver = () =>
    doPart("notifications", "notifications delivered", deliverNotifications);
  const hold = (queue: Queue, work: () => Promise<boolean>) =>
    holding(queue, run, work, () => queue === "retries" || limit() > 0);

  const isForRetries = only === null || only === "retries";
  const isForNotifications = only === null || only === "notifications";
  // At the same time, because either receiver may be slow, or ask for a pause.
  await Promise.all([
    isForRetries && hold("retries", retry),
    isForNotifications && hold("notifications", deliver),
  ]);
  const hasFailed = faults.length > 0;
  // The events that were applied may have created notifications meanwhile.
  let maySend = !hasFailed && counts.retries.applied > 0;
  if (isForNotifications || maySend) {
    await hold("notifications", async () => {
      const isGood = await alert() && (!maySend || await deliver());
      // If it is to go on, another run has asked while alerts were sent.
      maySend = true;
      return isGood;
    });
  }
  const [first] = faults;
  if (first !== undefined) {
    const { status, body } = ERRORS[first.code];
    return new Response(body, { status });
  }
  return Response.json({ ...counts, settings: worker.settings });
}

/**
 * Does work on a queue, and then releases its lease, so that the next run need not
 * wait until it ends by itself. The first claim takes the lease. If another run has
 * it, the claims return nothing, and there is nothing to release; but that run then
 * looks once more, since this one was woken for something to do.
 *
 * @param work Returns whether it did not fail.
 */
async function holding(
  queue: Queue,
  { database, leaseId, endMs, isScheduled, clock, log }: Run,
  work: () => Promise<boolean>,
  canGoOn: () => boolean,
): Promise<void> {
  try {
    let isGood = true;
    let isWanted = true;
    while (isWanted) {
      isGood = await work() && isGood;
      const name = "billing_release_lease";
      isWanted = await callFunction(database, name, {
        queue: queue,
        lease_id: leaseId,
        is_last: clock() >= endMs || !canGoOn(),
        is_scheduled: isScheduled && isGood,
      }, RELEASE_LIMIT) === true;
    }
  } catch (thrown) {
    // The work is done, so the run has not failed.
    const { code, logMessage } = toDeliveryError(thrown);
    const message = "lease not released: it ends by itself within a minute";
    log("warn", message, { code, error: logMessage });
  }
}
