import type { PlanItem } from "../_shared/billing/config.ts";
import { callFunction } from "../_shared/billing/database.ts";
import {
  DeliveryError,
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
import type { FormatName } from "../_shared/billing/formats/formats.ts";
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
export type Worker = Omit<Run, "leaseId" | "endMs" | "limit" | "isScheduled">;

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
  const run: Run = {
    ...worker,
    leaseId: crypto.randomUUID(),
    endMs: worker.clock() + RUN_TIME_MS,
    isScheduled: only === null,
  };
  let left = RUN_LIMIT;
  async function deliver() {
    const done = "notifications delivered";
    const limited = { ...run, limit: left };
    const counts = await doPart(deliverNotifications, done, limited);
    if (hasCounts(counts)) left -= counts.claimed;
    return counts;
  }
  const retry = () => doPart(retryFailures, "failures retried", run);
  const alert = () => doPart(deliverAlerts, "alerts delivered", run);
  const work = <T>(queue: Queue, part: () => Promise<T>) =>
    only === null || only === queue
      ? holding(queue, run, part, () => queue === "retries" || left > 0)
      : Promise.resolve<T[]>([]);
  // At the same time, because either receiver may be slow, or ask for a pause.
  const [retried, delivered] = await Promise.all([
    work("retries", retry),
    work("notifications", deliver),
  ]);
  const alerted = await work("notifications", alert);
  const retries = total(NO_RETRIES, retried);
  const alerts = total(NO_NOTIFICATIONS, alerted);
  const isDelivering = hasCounts(total(NO_NOTIFICATIONS, delivered));
  // The events that were applied may have created notifications meanwhile.
  if (isDelivering && hasCounts(retries) && retries.applied > 0) {
    delivered.push(
      ...await holding("notifications", run, deliver, () => left > 0),
    );
  }
  const notifications = total(NO_NOTIFICATIONS, delivered);
  const fault = [retries, alerts, notifications].find((part) =>
    part instanceof DeliveryError
  );
  if (fault !== undefined) {
    const { status, body } = ERRORS[fault.code];
    return new Response(body, { status });
  }
  const { settings } = worker;
  return Response.json({ retries, alerts, notifications, settings });
}

/** Does one part of a run, and logs its failure, or what is done if it is anything. */
async function doPart<Counts extends { claimed: number }>(
  work: (run: Run) => Promise<Counts>,
  done: string,
  run: Run,
): Promise<Counts | DeliveryError> {
  try {
    const counts = await work(run);
    if (counts.claimed > 0) run.log("info", done, { counts: { ...counts } });
    return counts;
  } catch (thrown) {
    const error = toDeliveryError(thrown);
    const { code, logMessage } = error;
    run.log("error", "run failed", { code, error: logMessage });
    return error;
  }
}

/** Adds counts; of failures, the first is the total. */
function total<Counts extends Readonly<Record<string, number>>>(
  none: Counts,
  parts: readonly (Counts | DeliveryError)[],
): Counts | DeliveryError {
  const sum: Record<string, number> = { ...none };
  for (const part of parts) {
    if (!hasCounts(part)) return part;
    for (const [name, count] of Object.entries(part)) sum[name]! += count;
  }
  return sum as Counts;
}

function hasCounts<Counts>(part: Counts | DeliveryError): part is Counts {
  return !(part instanceof DeliveryError);
}

/**
 * Does work on a queue, and then releases its lease, so that the next run need not
 * wait until it ends by itself. The first claim takes the lease. If another run has
 * it, the claims return nothing, and there is nothing to release; but that run then
 * looks once more, since this one was woken for something to do.
 */
async function holding<T>(
  queue: Queue,
  { database, leaseId, endMs, isScheduled, clock, log }: Run,
  work: () => Promise<T>,
  canGoOn: () => boolean,
): Promise<T[]> {
  const rounds: T[] = [];
  try {
    let isWanted = true;
    while (isWanted) {
      rounds.push(await work());
      const hasFailed = rounds.some((round) => round instanceof DeliveryError);
      const name = "billing_release_lease";
      isWanted = await callFunction(database, name, {
        p_queue: queue,
        p_lease_id: leaseId,
        p_is_last: clock() >= endMs || !canGoOn(),
        p_is_scheduled: isScheduled && !hasFailed,
      }, RELEASE_LIMIT) === true;
    }
  } catch (thrown) {
    // The work is done, so the run has not failed.
    const { code, logMessage } = toDeliveryError(thrown);
    const message = "lease not released: it ends by itself within a minute";
    log("warn", message, { code, error: logMessage });
  }
  return rounds;
}
