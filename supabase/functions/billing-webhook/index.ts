/**
 * The receiver of billing events, wired to its environment.
 *
 * @module
 */
import { applyEvents } from "../_shared/billing/apply_events.ts";
import { readConfig } from "../_shared/billing/config.ts";
import { createDatabase } from "../_shared/billing/database.ts";
import { logJson } from "../_shared/billing/log.ts";
import { throttleInfo } from "./throttle_info.ts";
import { awaitLocks } from "./await_locks.ts";
import { gather } from "./gather.ts";
import { handleWebhook, type Receiver } from "./handle_webhook.ts";
import { readProviders } from "./providers.ts";
import { workerWaker } from "./wake_worker.ts";

/** A body that takes longer is an attack, or a connection that is lost. */
const BODY_TIME_LIMIT = 10_000;

/**
 * With fifty events per call, the round trip no longer matters. Twenty calls of
 * that size take about a second. After 3 s of waiting there is still time for a
 * call that hangs (3 s) and for one that records the failure (1.5 s): every
 * delivery is answered within 10 s.
 */
const GATHER_LIMITS = {
  maxTogether: 50,
  maxWaiting: 1_000,
  maxWaitMs: 3_000,
};

/** Ten lines of a kind in ten seconds, of the hundred that Supabase keeps. */
const LOG_INTERVAL = 1_000;

const log = throttleInfo(logJson, { interval: LOG_INTERVAL });
const env = Deno.env.toObject();
const config = readConfig(env);
const database = createDatabase(config, { fetch });
const receiver: Receiver = {
  providers: await readProviders(env),
  toleranceSeconds: config.toleranceSeconds,
  body: { maxBytes: config.maxBodyBytes, timeLimit: BODY_TIME_LIMIT },
  unmappedSubscriptions: config.unmappedSubscriptions,
  apply: awaitLocks(
    gather(
      (events) => applyEvents(events, { database, log, now: Date.now }),
      GATHER_LIMITS,
    ),
    { sleep, now: Date.now },
  ),
  database,
  log,
  wakeWorker: workerWaker(config, { fetch, log }),
  now: Date.now,
};

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

for (const { name, fault } of receiver.providers) {
  if (fault !== undefined) {
    log("warn", "provider refused until it is configured", {
      provider: name,
      error: fault,
    });
  }
}

export default {
  fetch: (request: Request) => handleWebhook(request, receiver),
};
