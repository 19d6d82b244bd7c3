/**
 * A worker in a process of its own.
 *
 * @module
 */
import type { Environment } from "../../scripts/common/environment.ts";
import type { NotificationCounts } from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { type Answer, post } from "./send.ts";
import { type ServedFunction, serveFunction } from "./serve_function.ts";

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

/** A running worker. */
export interface TestWorker extends ServedFunction {
  /** One turn, with the stack's secret key; what became of the batch. */
  wake(): Promise<Record<string, number>>;
  /** A call as anybody may make it. */
  call(init: RequestInit): Promise<Answer>;
}

/**
 * Starts a worker on a free port.
 *
 * @param env On top of what the platform gives; it names the channel.
 */
export async function startWorker(env: Environment): Promise<TestWorker> {
  const served = await serveFunction("billing-worker", { env });
  const { secret } = await localKeys();

  function call(init: RequestInit) {
    return post(served.url, init);
  }

  async function wake() {
    const { status, body } = await call({ headers: { apikey: secret } });
    if (status !== 200) {
      throw new Error(`The worker answered ${status}\n${served.output()}`);
    }
    return JSON.parse(body).notifications;
  }

  return { ...served, call, wake };
}
