import { handlerName } from "../_shared/billing/events/event_settings.ts";
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
import { NO_SWEEP, sweep, type SweepOptions } from "./sweep/sweep.ts";
import { NO_RETRIES, retryFailures } from "./retry_failures.ts";

/** The dependencies and settings of every run. */
export interface Worker extends
  Omit<
    SweepOptions & DeliveryOptions,
    "leaseId" | "endMs" | "limit" | "handlers"
  > {
  /** For the doctor. */
  readonly settings?: object;
}

/**
 * For the notifications of one run. A little less than the interval of the schedule (a
 * minute), because the next run finds nothing while this one goes on.
 */
export const RUN_TIME_MS = 55_000;

/**
 * Answers one wake with one run of the worker: of all queues, or of the one in `?queue=`.
 * Each queue has its own lease: one run may have the retries while another delivers.
 *
 * Alerts wait until the retries of the run have ended, so that the operator is not
 * alerted to failures that are just being resolved.
 */
export async function handleWake(
  request: Request,
  worker: Worker,
): Promise<Response> {
  if (request.method !== "POST") {
    return new Response("", { status: 405, headers: { allow: "POST" } });
  }

  const queue = new URL(request.url).searchParams.get("queue");
  // The webhook names a queue, and the schedule none.
  const run = beginRun(worker, queue === null);
  const isFor = (name: Queue) => run.isScheduled || queue === name;
  const canSweep = worker.keyedProviders.length > 0;

  // In parallel, because a slow destination must not delay the retries.
  await Promise.all([
    isFor("retries") && workThenRelease("retries", run),
    isFor("notifications") && workThenRelease("notifications", run),
    isFor("sweep") && canSweep && workThenRelease("sweep", run),
  ]);

  // The events that were applied may have created notifications meanwhile.
  const { faults, counts } = run;
  const applied = counts.retries.applied + counts.sweep.missed;
  const mayHaveCreated = faults.length === 0 && applied > 0;
  if (isFor("notifications") || mayHaveCreated) {
    await workThenRelease("notifications", run, async (isRepeated) => {
      const hasSucceeded = await work("alerts", run);
      // Repeated: another run has asked for the queue while alerts were sent.
      const hasNew = mayHaveCreated || isRepeated;
      return hasSucceeded && hasNew
        ? await work("notifications", run)
        : hasSucceeded;
    });
  }

  const [fault] = faults;
  if (fault !== undefined) {
    const { status, body } = ERRORS[fault.code];
    return new Response(body, { status });
  }
  return Response.json({ ...counts, settings: worker.settings });
}

type Run = ReturnType<typeof beginRun>;

function beginRun(worker: Worker, isScheduled: boolean) {
  const { types, fault } = worker.handlerTypes;
  // With a fault, no event is lost: those of unlisted types fail and are stored.
  const comparesHandlers = isScheduled && fault === undefined;
  const faults: DeliveryError[] = [];
  return {
    ...worker,
    leaseId: crypto.randomUUID(),
    endMs: worker.clock() + RUN_TIME_MS,
    isScheduled,
    handlers: comparesHandlers ? [...types].map(handlerName) : undefined,
    counts: {
      retries: { ...NO_RETRIES },
      alerts: { ...NO_NOTIFICATIONS },
      notifications: { ...NO_NOTIFICATIONS },
      sweep: { ...NO_SWEEP },
    },
    faults,
  };
}

/** The parts of a run, and the lines that report them; a sweep writes its own. */
const PARTS = {
  retries: [retryFailures, "failures retried"],
  alerts: [deliverAlerts, "alerts delivered"],
  notifications: [
    (run: Run) => deliverNotifications({ ...run, limit: countLeft(run) }),
    "notifications delivered",
  ],
  sweep: [sweepIfDue, ""],
} as const;

type Queue = Exclude<keyof typeof PARTS, "alerts">;

/**
 * Sweeps. On the schedule, it does so only if a sweep is due and the database cannot wake
 * the worker once more for it.
 */
async function sweepIfDue(run: Run): Promise<typeof NO_SWEEP> {
  const providers = run.keyedProviders.map(({ provider }) => provider);
  const mustSweep = !run.isScheduled ||
    await callFunction(run.database, "billing_request_sweep", { providers });
  return mustSweep ? await sweep(run) : NO_SWEEP;
}

function countLeft({ counts }: Run): number {
  return RUN_LIMIT - counts.notifications.claimed;
}

/** Adds up and logs the counts of one part of a run, or its fault; returns whether it succeeded. */
async function work(part: keyof typeof PARTS, run: Run): Promise<boolean> {
  const [begin, message] = PARTS[part];
  try {
    const results: Record<string, number> = await begin(run);
    const sums: Record<string, number> = run.counts[part];
    for (const [name, count] of Object.entries(results)) sums[name]! += count;
    if (results["claimed"]) run.log("info", message, { counts: results });
    return true;
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const { code, logMessage } = error;
    run.log("error", "run failed", { code, error: logMessage });
    run.faults.push(error);
    return false;
  }
}

/**
 * Works on a queue, and then releases its lease, so that the next run need not wait
 * until it expires. The first claim takes the lease. If another run has it, the claims
 * return nothing, and that run works once more in place of this one.
 *
 * @param workOnce Returns whether it succeeded.
 */
async function workThenRelease(
  queue: Queue,
  run: Run,
  workOnce = (_isRepeated: boolean) => work(queue, run),
): Promise<void> {
  const { database, leaseId, endMs, clock, log } = run;
  try {
    let hasSucceeded = true;
    let isRepeated = false;
    do {
      hasSucceeded = await workOnce(isRepeated) && hasSucceeded;

      // A run has processor time for one sweep.
      const isAtLimit = queue === "sweep" ||
        queue === "notifications" && countLeft(run) <= 0;
      isRepeated = await callFunction(database, "billing_release_lease", {
        queue,
        lease_id: leaseId,
        is_last: clock() >= endMs || isAtLimit,
        is_scheduled: run.isScheduled && hasSucceeded && queue !== "sweep",
      }) === true;
    } while (isRepeated);
  } catch (thrown) {
    // The work is done, so the run has not failed.
    const { code, logMessage } = toDeliveryError(thrown);
    const message = "lease not released: it ends by itself within a minute";
    log("warn", message, { code, error: logMessage });
  }
}
