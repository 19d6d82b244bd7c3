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
  type NotificationCounts,
  RUN_LIMIT,
} from "./deliver_notifications.ts";
import type { FormatName } from "../_shared/billing/events/formats.ts";
import { NO_SWEEP, sweep, type SweepOptions } from "./sweep/sweep.ts";
import {
  NO_RETRIES,
  type RetryCounts,
  retryFailures,
  type RetryOptions,
} from "./retry_failures.ts";

/** The settings of the deployment that are not secret. */
export type Settings = Readonly<{
  /** The providers whose stored failures are answered 200. */
  acknowledging: readonly string[];
  hasAlerts: boolean;
  handledTypes: readonly string[];
  handledTypesFault: string | undefined;
  accountFromCheckout: boolean;
  notify: readonly string[];
  planItem: PlanItem;
  /** By provider, without those whose setting is wrong. */
  formats: Readonly<Record<string, FormatName>>;
  /** The providers with a key for sweeps: why it cannot be used, or null. */
  sweeps: Readonly<Record<string, string | null>>;
  schemaVersion: number;
}>;

/** The dependencies and settings of every run. */
export interface Worker
  extends
    Omit<RetryOptions, "leaseId">,
    Omit<SweepOptions, "leaseId">,
    Omit<DeliveryOptions, "leaseId" | "endMs" | "limit" | "handlers"> {
  /** Reported to the doctor, which cannot read the settings of a project. */
  readonly settings?: Settings;
}

interface Run extends Worker {
  readonly leaseId: string;
  readonly endMs: number;
  /** Whether the schedule has woken the worker; the webhook names a queue. */
  readonly isScheduled: boolean;
  readonly handlers: readonly string[] | undefined;
  /** The results of its parts so far. */
  readonly counts: {
    readonly retries: RetryCounts;
    readonly alerts: NotificationCounts;
    readonly notifications: NotificationCounts;
    /** Undefined without a key. */
    readonly sweep: typeof NO_SWEEP | undefined;
  };
  readonly faults: DeliveryError[];
}

/**
 * For the notifications of one run. A little less than the interval of the schedule (a
 * minute), so that the last batch has ended when the next run begins: a run finds
 * nothing while another one goes on.
 */
export const RUN_TIME_MS = 55_000;

const RELEASE_LIMIT = { timeLimitMs: 5_000 };
const REQUEST_LIMIT = { timeLimitMs: 5_000 };

/**
 * Answers one wake with one run of the worker: failures to retry, and at the same
 * time due notifications; with `?queue=retries`, `?queue=notifications` or
 * `?queue=sweep` only that, and with any other queue nothing. The counts in the reply show whether
 * there was anything to do.
 *
 * Alerts wait until the retries of the run have ended, so that the operator is not
 * alerted to failures that are just being resolved.
 *
 * Each queue has its own lease: one run may have the retries while another delivers.
 */
export async function handleWake(
  request: Request,
  worker: Worker,
): Promise<Response> {
  if (request.method !== "POST") {
    return new Response("", { status: 405, headers: { allow: "POST" } });
  }

  const queue = new URL(request.url).searchParams.get("queue");
  const isScheduled = queue === null;
  const isForRetries = isScheduled || queue === "retries";
  const isForNotifications = isScheduled || queue === "notifications";
  const isForSweep = worker.keyedProviders.length > 0 &&
    (isScheduled || queue === "sweep");
  const run = beginRun(worker, isScheduled);

  // In parallel, because a slow destination must not delay the retries.
  await Promise.all([
    isForRetries && workThenRelease("retries", run, () => runRetries(run)),
    isForNotifications &&
    workThenRelease("notifications", run, () => runNotifications(run)),
    isForSweep &&
    workThenRelease("sweep", run, () => record(run, "sweep", sweepIfDue(run))),
  ]);

  // The events that were applied may have created notifications meanwhile.
  const { faults, counts } = run;
  const hasApplied = counts.retries.applied > 0 ||
    (counts.sweep?.missed ?? 0) > 0;
  const mayHaveCreated = faults.length === 0 && hasApplied;
  if (isForNotifications || mayHaveCreated) {
    await workThenRelease("notifications", run, (isRepeated) => {
      // Repeated: another run has asked for the queue while alerts were sent.
      return runAlertsThenNew(run, mayHaveCreated || isRepeated);
    });
  }

  const [fault] = faults;
  if (fault !== undefined) {
    const { status, body } = ERRORS[fault.code];
    return new Response(body, { status });
  }
  return Response.json({ ...counts, settings: worker.settings });
}

function beginRun(worker: Worker, isScheduled: boolean): Run {
  const { types, fault } = worker.handlerTypes;
  // With a fault, no event is lost: those of unlisted types fail and are stored.
  const comparesHandlers = isScheduled && fault === undefined;
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
      sweep: worker.keyedProviders.length > 0 ? { ...NO_SWEEP } : undefined,
    },
    faults: [],
  };
}

/** The schedule wakes the worker once more when a sweep is due, if anything can. */
async function sweepIfDue(run: Run): Promise<typeof NO_SWEEP> {
  if (run.isScheduled) {
    const providers = run.keyedProviders.map(({ provider }) => provider);
    const mustSweep = await callFunction(
      run.database,
      "billing_request_sweep",
      { providers },
      REQUEST_LIMIT,
    );
    if (!mustSweep) return NO_SWEEP;
  }
  return await sweep(run);
}

function runRetries(run: Run): Promise<boolean> {
  return record(run, "retries", retryFailures(run));
}

function runNotifications(run: Run): Promise<boolean> {
  const delivery = deliverNotifications({ ...run, limit: countLeft(run) });
  return record(run, "notifications", delivery);
}

/** Delivers alerts, and then notifications if there may be new ones. */
async function runAlertsThenNew(run: Run, hasNew: boolean): Promise<boolean> {
  const hasSucceeded = await record(run, "alerts", deliverAlerts(run));
  return hasSucceeded && hasNew ? await runNotifications(run) : hasSucceeded;
}

function countLeft({ counts }: Run): number {
  return RUN_LIMIT - counts.notifications.claimed;
}

type Part = keyof Run["counts"];

/** A sweep writes lines of its own. */
const DONE: Partial<Record<Part, string>> = {
  retries: "failures retried",
  alerts: "alerts delivered",
  notifications: "notifications delivered",
};

/**
 * Adds up the counts of one part of a run, and logs them if anything was claimed. Logs
 * and keeps a fault. Returns whether the part succeeded.
 */
async function record(
  { counts, faults, log }: Run,
  part: Part,
  work: Promise<Record<string, number>>,
): Promise<boolean> {
  try {
    const results = await work;
    const sums: Record<string, number> = counts[part] ?? {};
    for (const [name, count] of Object.entries(results)) sums[name]! += count;
    const message = DONE[part];
    if (message !== undefined && results["claimed"]! > 0) {
      log("info", message, { counts: results });
    }
    return true;
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const { code, logMessage } = error;
    log("error", "run failed", { code, error: logMessage });
    faults.push(error);
    return false;
  }
}

/**
 * Works on a queue, and then releases its lease, so that the next run need not wait
 * until it expires. The first claim takes the lease. If another run has it, the claims
 * return nothing, and that run works once more in place of this one.
 *
 * @param work Returns whether it succeeded. It is repeated while another run has
 * asked for the queue and this one may still claim something.
 */
async function workThenRelease(
  queue: "retries" | "notifications" | "sweep",
  run: Run,
  work: (isRepeated: boolean) => Promise<boolean>,
): Promise<void> {
  const { database, leaseId, endMs, clock, log } = run;
  try {
    let hasSucceeded = true;
    let isRepeated = false;
    do {
      hasSucceeded = await work(isRepeated) && hasSucceeded;

      // A run has processor time for one sweep.
      const isAtLimit = queue === "sweep" ||
        queue === "notifications" && countLeft(run) <= 0;
      isRepeated = await callFunction(database, "billing_release_lease", {
        queue,
        lease_id: leaseId,
        is_last: clock() >= endMs || isAtLimit,
        is_scheduled: run.isScheduled && hasSucceeded && queue !== "sweep",
      }, RELEASE_LIMIT) === true;
    } while (isRepeated);
  } catch (thrown) {
    // The work is done, so the run has not failed.
    const { code, logMessage } = toDeliveryError(thrown);
    const message = "lease not released: it ends by itself within a minute";
    log("warn", message, { code, error: logMessage });
  }
}
