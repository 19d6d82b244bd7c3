import type { Environment } from "../_shared/billing/environment.ts";
import {
  callDatabase,
  type DatabaseClient,
} from "../_shared/billing/database/client.ts";
import { toDeliveryError } from "../_shared/billing/errors.ts";
import type { Log } from "../_shared/billing/log.ts";

/** Five runs of the schedule. */
const MAX_AGE_MS = 5 * 60_000;

/**
 * Returns why it is unsafe to acknowledge failures here; undefined if the schedule runs
 * and an alert channel is set, since the provider does not send such events again.
 */
export function whyUnsafeToAcknowledge(
  lastScheduledRunAt: string | null | undefined,
  hasAlerts: boolean,
  nowMs: number,
): string | undefined {
  const hasRun = nowMs - Date.parse(lastScheduledRunAt ?? "") <= MAX_AGE_MS;
  if (!hasRun) {
    return "the schedule has not woken the worker successfully in the last 5 minutes: run billing.schedule_worker, and look at the worker's log";
  }
  return hasAlerts ? undefined : "no alert channel is set: set ALERT_URL";
}

export async function checkAcknowledged(
  { env, database, clock, log }: {
    env: Environment;
    database: DatabaseClient;
    clock: () => number;
    log: Log;
  },
): Promise<void> {
  let error: string | undefined;
  try {
    const [health] = await callDatabase(
      (signal) =>
        database.from("billing_health").select("last_scheduled_run_at")
          .abortSignal(signal),
      { timeLimitMs: 5_000 },
    );
    const hasAlerts = Boolean(env["ALERT_URL"]);
    error = whyUnsafeToAcknowledge(
      health?.last_scheduled_run_at,
      hasAlerts,
      clock(),
    );
  } catch (thrown) {
    error = `cannot be checked: ${toDeliveryError(thrown).logMessage}`;
  }

  if (error === undefined) return;
  log("error", "failures are acknowledged, but may not be retried or seen", {
    error,
  });
}
