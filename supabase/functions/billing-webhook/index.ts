/** The webhook, wired to its environment. */
import {
  applyEvents,
  applyWithHandler,
  type BillingEvent,
  type Outcome,
} from "../_shared/billing/database/apply_events.ts";
import { readDeploymentSettings } from "../_shared/billing/settings/deployment.ts";
import { createClient } from "../_shared/billing/database/client.ts";
import { watchVersion } from "../_shared/billing/database/schema_version.ts";
import { keepAlive } from "../_shared/billing/keep_alive.ts";
import { logJson } from "../_shared/billing/log.ts";
import { checkAcknowledged } from "./check_acknowledged.ts";
import { throttleInfo } from "./throttle_info.ts";
import { batch } from "./queues/batch.ts";
import { isolateSlow } from "./queues/isolate_slow.ts";
import { retryWhileLocked } from "./queues/retry_while_locked.ts";
import { handleWebhook, type Webhook } from "./handle_webhook.ts";
import { readProviders } from "./signatures/signature_providers.ts";
import { isLocalStack } from "../_shared/billing/settings/local_stack.ts";
import { workerWaker } from "./wake_worker.ts";

/**
 * With fifty events per call, the round trip no longer matters. After a wait of 3 s there
 * is still time for a call that hangs (3 s) and for one that records the failure (1.5 s),
 * so each reply is sent within 10 s.
 */
const TOGETHER = {
  calls: 1,
  maxTogether: 50,
  maxWaiting: 1_000,
  maxWaitMs: 3_000,
};

/**
 * Three calls at a time made other events 40 % slower on two cores. A wait of 5 s, too,
 * leaves time for both calls.
 */
const ALONE = {
  calls: 2,
  maxTogether: 1,
  maxWaiting: 1_000,
  maxWaitMs: 5_000,
};

const env = Deno.env.toObject();
const deployment = readDeploymentSettings(env);
const log = throttleInfo(logJson, {
  // Allows ten lines per message in ten seconds.
  intervalMs: 1_000,
  // On a local stack, a developer watches the deliveries one by one.
  maxLines: isLocalStack(env) ? 50 : 1,
});
const database = createClient(deployment, {
  fetch: watchVersion({ fetch, log }),
});
const wakeWorker = workerWaker(deployment, { fetch, log });

const applyOptions = {
  database,
  onRetries: () => wakeWorker("retries"),
};
const callHandler = batch<BillingEvent, Outcome>(
  async ([event]) => [await applyWithHandler(event!, applyOptions)],
  ALONE,
);
const send = (events: BillingEvent[]) => applyEvents(events, applyOptions);
const applyWithoutHandler = isolateSlow<BillingEvent, Outcome>({
  together: batch(send, TOGETHER),
  alone: batch(send, ALONE),
  keyOf: ({ subscription_id, event_id }) => subscription_id ?? event_id,
});

const webhook: Webhook = {
  providers: await readProviders(env),
  ...deployment,
  body: { maxBytes: deployment.maxBodyBytes, timeLimitMs: 10_000 },
  apply: retryWhileLocked((event) =>
    event.payload === undefined
      ? applyWithoutHandler(event)
      : callHandler(event)
  ),
  database,
  log,
  wakeWorker,
  clock: Date.now,
};

for (const { name: provider, fault: error } of webhook.providers) {
  if (error === undefined) continue;
  log("warn", "provider refused until it is configured", { provider, error });
}

const { fault: error } = deployment.handlerTypes;
if (error !== undefined) {
  log("error", "events of further types are refused", { error });
}

if (webhook.providers.some(({ acknowledges }) => acknowledges)) {
  keepAlive(checkAcknowledged({ env, database, clock: Date.now, log }));
}

export default {
  fetch: (request: Request) => handleWebhook(request, webhook),
};
