import type { Environment } from "../../scripts/common/environment.ts";
import type { NotificationCounts } from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { type ServedFunction, serveFunction } from "./serve_function.ts";
import { takeTurn } from "./triage.ts";

/** What a turn counts if nothing is due. */
export const NO_COUNTS: NotificationCounts = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};

/** A worker in a process of its own. */
export interface TestWorker extends ServedFunction {
  /** Takes a turn, and returns its counts of notifications. */
  wake(): Promise<Record<string, number>>;
}

/**
 * Starts a worker on a free port.
 *
 * @param env On top of what the platform gives; it names the channel.
 */
export async function startWorker(env: Environment): Promise<TestWorker> {
  const served = await serveFunction("billing-worker", { env });
  const wake = async () => (await takeTurn(served)).notifications;
  return { ...served, wake };
}
