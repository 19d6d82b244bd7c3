/**
 * The outbox: notifications to accounts, and alerts to the operator. The run that holds
 * the lease claims them, unless the destination has asked for a pause. Those that it does
 * not settle are due again when the lease has ended.
 */
import {
  callFunction,
  type DatabaseClient,
} from "../_shared/billing/database/client.ts";
import type { Log } from "../_shared/billing/log.ts";
import type {
  Alert,
  Attempt,
  Channel,
  Notification,
} from "./channels/channel.ts";

export const NO_NOTIFICATIONS = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};

/** Without a rate limit, a batch takes as long as its slowest. */
const BATCH_SIZE = 20;

/**
 * With a rate limit, a 429 leaves the rest of a batch unsent, so it is small. It fits into
 * the lease (60 s): 5 s to claim it, 2 s until the last notification is sent, 15 s for an
 * attempt (5 s for the address, 10 s for the mail), 5 s to settle it.
 */
const PACED_BATCH_SECONDS = 2;

/** The most that is kept of an error, in UTF-16 units. */
const ERROR_LENGTH = 1_000;

/** More space than the limit needs, because travel times vary. */
const PACED_MARGIN = 1.1;

/** Supabase gives a request 2 s of processor time. An e-mail takes over 1 ms. */
export const RUN_LIMIT = 1_000;

export type DeliveryOptions = Readonly<{
  database: DatabaseClient;
  leaseId: string;
  channel: Channel | undefined;
  alertChannel?: Channel<Alert> | undefined;
  /** The listed types' handlers; undefined if unlisted ones cause no alert. */
  handlers?: readonly string[] | undefined;
  pace: () => Promise<void>;
  endMs: number;
  /** How many notifications this run may still claim. */
  limit?: number;
  log: Log;
  clock: () => number;
}>;

/**
 * Delivers due notifications in batches. If the run is at a limit, a whole batch fails or
 * the destination asks for a pause, the rest waits for the next run. Without a channel,
 * nothing is claimed.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function deliverNotifications(
  options: DeliveryOptions,
): Promise<typeof NO_NOTIFICATIONS> {
  const { database, leaseId, channel, clock, endMs, limit = RUN_LIMIT } =
    options;
  if (channel === undefined) return count([]);

  const { destination, perSecond } = channel;
  const batch_size = perSecond ? perSecond * PACED_BATCH_SECONDS : BATCH_SIZE;
  const claim = { lease_id: leaseId, destination, batch_size };

  const all: Attempt[] = [];
  while (clock() < endMs && all.length < limit) {
    const due = await callFunction(
      database,
      "billing_claim_notifications",
      claim,
    ) as Notification[];
    const results = await deliverBatch("notifications", due, channel, options);
    all.push(...results);

    const { claimed, failed, dead, limited } = count(results);
    const hasFailed = failed + dead === claimed; // Or nothing was due.
    if (hasFailed || limited > 0) break;
  }
  return count(all);
}

/** Delivers the alerts that are due, all at once. */
export async function deliverAlerts(
  { alertChannel, handlers, ...rest }: DeliveryOptions,
): Promise<typeof NO_NOTIFICATIONS> {
  if (alertChannel === undefined) return count([]);

  const alerts = await callFunction(
    rest.database,
    "billing_claim_alerts",
    {
      lease_id: rest.leaseId,
      destination: alertChannel.destination,
      ...(handlers && { handlers: [...handlers] }),
    },
  ) as Alert[];
  const options = { ...rest, pace: () => Promise.resolve() };
  return count(await deliverBatch("alerts", alerts, alertChannel, options));
}

async function deliverBatch<Message extends Notification | Alert>(
  part: "notifications" | "alerts",
  claimed: readonly Message[],
  { destination, send }: Channel<Message>,
  { database, leaseId, log, pace }: DeliveryOptions,
): Promise<readonly Attempt[]> {
  if (claimed.length === 0) return [];

  let isLimited = false;
  const results = await Promise.all(
    claimed.map(async (message): Promise<Attempt> => {
      await pace();
      if (isLimited) return { result: "unsent" };
      const attempt = await send(message);
      const { result, error } = attempt;
      if (result === "limited") isLimited = true;
      if (error !== undefined) {
        log("warn", "notification not delivered", {
          notification_id: message.id,
          event_id: "event_id" in message ? message.event_id : null,
          result,
          error,
        });
      }
      return attempt;
    }),
  );

  const settled = results.map(({ result, error, retryAfterSeconds }, i) => {
    // The alert as it was claimed: more events may have failed since.
    const { id, kind, alert, created_at }: Partial<Alert> = claimed[i]!;
    return {
      id,
      kind,
      alert,
      created_at,
      result,
      // Characters that Postgres cannot store would prevent all settling.
      error: error?.slice(0, ERROR_LENGTH).replaceAll("\0", "")
        .toWellFormed() ?? null,
      retry_after_seconds: retryAfterSeconds ?? null,
    };
  });
  await callFunction(database, `billing_settle_${part}`, {
    lease_id: leaseId,
    destination,
    results: settled,
  });
  return results;
}

/**
 * Makes a function that resolves when the next notification may be sent. The time for
 * claiming and settling is not added. Only one run sends at a time, so the database need
 * not keep the schedule; after the run of another instance, a few may be sent too early.
 */
export function pacer(
  perSecond: number | undefined,
  { clock, sleep }: {
    clock: () => number;
    sleep: (ms: number) => Promise<void>;
  },
): () => Promise<void> {
  if (perSecond === undefined) return () => Promise.resolve();
  let nextMs = -Infinity;
  return async function pace() {
    const nowMs = clock();
    const sendMs = Math.max(nextMs, nowMs);
    nextMs = sendMs + PACED_MARGIN * 1000 / perSecond;
    if (sendMs > nowMs) await sleep(sendMs - nowMs);
  };
}

function count(results: readonly Attempt[]) {
  const counts = { ...NO_NOTIFICATIONS, claimed: results.length };
  for (const { result } of results) counts[result]++;
  return counts;
}
