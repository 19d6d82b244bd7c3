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
  readonly counts: {
    readonly retries: RetryCounts;
    readonly alerts: NotificationCounts;
    readonly notifications: NotificationCounts;
    readonly sweep: typeof NO_SWEEP;
  };
  readonly faults: DeliveryError[];
}

/**
 * For the notifications of one run. A little less than the interval of the schedule (a
 * minute), because the next run finds nothing while this one goes on.
 */
export const RUN_TIME_MS = 55_000;

const CALL_LIMIT = { timeLimitMs: 5_000 };

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
  const isScheduled = queue === null;
  const isForRetries = isScheduled || queue === "retries";
  const isForNotifications = isScheduled || queue === "notifications";
  const isForSweep = isScheduled || queue === "sweep";
  const canSweep = worker.keyedProviders.length > 0;
  const run = beginRun(worker, isScheduled);

  // In parallel, because a slow destination must not delay the retries.
  await Promise.all([
    isForRetries && workThenRelease("retries", run, () => runRetries(run)),
    isForNotifications &&
    workThenRelease("notifications", run, () => runNotifications(run)),
    isForSweep && canSweep &&
    workThenRelease("sweep", run, () => runSweep(run)),
  ]);

  // The events that were applied may have created notifications meanwhile.
  const { faults, counts } = run;
  const applied = counts.retries.applied + counts.sweep.missed;
  const mayHaveCreated = faults.length === 0 && applied > 0;
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
      sweep: { ...NO_SWEEP },
    },
    faults: [],
  };
}

function runRetries(run: Run): Promise<boolean> {
  return record(run, "retries", retryFailures(run));
}

function runSweep(run: Run): Promise<boolean> {
  return record(run, "sweep", run.isScheduled ? sweepIfDue(run) : sweep(run));
}

/** If a sweep is due, wakes the worker once more; sweeps itself where that is impossible. */
async function sweepIfDue(run: Run): Promise<typeof NO_SWEEP> {
  const providers = run.keyedProviders.map(({ provider }) => provider);
  const mustSweep = await callFunction(
    run.database,
    "billing_request_sweep",
    { providers },
    CALL_LIMIT,
  );
  return mustSweep ? await sweep(run) : NO_SWEEP;
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
const DONE: Record<Exclude<Part, "sweep">, string> = {
  retries: "failures retried",
  alerts: "alerts delivered",
  notifications: "notifications delivered",
};

/** Adds up and logs the counts of one part of a run, or its fault; returns whether it succeeded. */
async function record(
  { counts, faults, log }: Run,
  part: Part,
  work: Promise<Record<string, number>>,
): Promise<boolean> {
  try {
    const results = await work;
    const sums: Record<string, number> = counts[part];
    for (const [name, count] of Object.entries(results)) sums[name]! += count;
    if (part !== "sweep" && results["claimed"]! > 0) {
      log("info", DONE[part], { counts: results });
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
 * @param work Returns whether it succeeded.
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
      }, CALL_LIMIT) === true;
    } while (isRepeated);
  } catch (thrown) {
    // The work is done, so the run has not failed.
    const { code, logMessage } = toDeliveryError(thrown);
    const message = "lease not released: it ends by itself within a minute";
    log("warn", message, { code, error: logMessage });
  }
}
