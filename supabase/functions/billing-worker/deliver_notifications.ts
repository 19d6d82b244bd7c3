import type { DatabaseClient } from "../_shared/billing/database.ts";
import type { Log } from "../_shared/billing/log.ts";
import type { Alert, Channel, Notification } from "./channels/channel.ts";
import {
  type Attempted,
  claimAlerts,
  claimNotifications,
  type Result,
  settleAlerts,
  settleNotifications,
} from "./outbox.ts";

/** The results of the notifications, or alerts, of one run. */
export type NotificationCounts = Record<"claimed" | Result["result"], number>;

export const NO_NOTIFICATIONS: NotificationCounts = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};

/**
 * Without a rate limit all are sent at once, so a batch takes as long as its
 * slowest.
 */
const BATCH_SIZE = 20;

/** With a rate limit, a 429 leaves the rest of a batch unsent, so it is small. */
const PACED_BATCH_SECONDS = 2;

/** A little more than the limit needs, because requests do not travel evenly. */
const PACED_MARGIN = 1.1;

/**
 * A request may use 2 s of CPU time on Supabase. An e-mail takes a little over
 * 1 ms of it, a webhook 0.2 ms (docs/decisions.md).
 */
export const RUN_LIMIT = 1_000;

/** What a run of the worker needs to deliver notifications and alerts. */
export interface DeliveryOptions {
  readonly database: DatabaseClient;
  readonly leaseId: string;
  /** The channel for notifications; undefined if none is configured. */
  readonly channel: Channel | undefined;
  /** The channel for alerts; undefined if none is configured. */
  readonly alertChannel?: Channel<Alert> | undefined;
  /** Resolves when the next notification may be sent: see {@linkcode pacer}. */
  readonly pace: () => Promise<void>;
  /** When the time of the run is over; the rest waits for the next run. */
  readonly endMs: number;
  /** How many notifications this run may still claim. */
  readonly limit?: number;
  readonly log: Log;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/**
 * Delivers due notifications in batches: claim, send, settle. It continues while
 * notifications are due, some of them succeed, and the limits of the run are not
 * reached. If a whole batch fails, or the receiver asks for a pause, the rest
 * waits for the next run. Without a channel nothing is claimed, and notifications
 * stay pending.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function deliverNotifications(
  options: DeliveryOptions,
): Promise<NotificationCounts> {
  const { channel, clock, endMs, limit = RUN_LIMIT } = options;
  const all: Result[] = [];
  while (channel && clock() < endMs && all.length < limit) {
    const results = await deliverBatch(channel, options);
    all.push(...results);
    if (!isWorthwhile(results)) break;
  }
  return count(all);
}

/**
 * Delivers the alerts that are due, all at once. Without a channel nothing is
 * claimed.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function deliverAlerts(
  { alertChannel, database, leaseId, log }: DeliveryOptions,
): Promise<NotificationCounts> {
  if (alertChannel === undefined) return count([]);
  const { destination } = alertChannel;
  const outbox = { p_lease_id: leaseId, p_destination: destination };
  const alerts = await claimAlerts(database, outbox);
  const attempts = await Promise.all(alerts.map(async (alert) => {
    const attempt = await alertChannel.send(alert);
    logFailure(log, alert.id, null, attempt);
    return { message: alert, attempt };
  }));
  if (attempts.length > 0) await settleAlerts(database, outbox, attempts);
  return count(attempts.map(({ attempt }) => attempt));
}

/**
 * Makes the function that spaces notifications, so that no more than the receiver
 * allows are sent per second. The times are on one schedule, so what claims and
 * settles take is not added. Only one run sends at a time, so it need not be in
 * the database; after the run of another instance, a few may be sent too early.
 *
 * @param channel Without a rate limit, nothing waits.
 * @param options.sleep Resolves after that many milliseconds.
 */
export function pacer(
  channel: { readonly perSecond?: number } | undefined,
  { clock, sleep }: {
    clock: () => number;
    sleep: (ms: number) => Promise<void>;
  },
): () => Promise<void> {
  const { perSecond } = channel ?? {};
  if (perSecond === undefined) return () => Promise.resolve();
  let nextMs = -Infinity;
  return async function pace() {
    const nowMs = clock();
    const sendMs = Math.max(nextMs, nowMs);
    nextMs = sendMs + PACED_MARGIN * 1000 / perSecond;
    if (sendMs > nowMs) await sleep(sendMs - nowMs);
  };
}

function count(results: readonly Result[]): NotificationCounts {
  const counts = { ...NO_NOTIFICATIONS, claimed: results.length };
  for (const { result } of results) counts[result]++;
  return counts;
}

/** Returns whether another batch may find notifications and deliver them. */
function isWorthwhile(results: readonly Result[]): boolean {
  return results.some(({ result }) =>
    result !== "failed" && result !== "dead"
  ) && results.every(({ result }) => result !== "limited");
}

async function deliverBatch(
  channel: Channel,
  { database, leaseId, log, pace }: DeliveryOptions,
): Promise<readonly Result[]> {
  const { destination, perSecond } = channel;
  const outbox = { p_lease_id: leaseId, p_destination: destination };
  const notifications = await claimNotifications(database, {
    ...outbox,
    p_limit: perSecond === undefined
      ? BATCH_SIZE
      : perSecond * PACED_BATCH_SECONDS,
  });
  let isLimited = false;
  const attempts = await Promise.all(
    notifications.map(async (message): Promise<Attempted<Notification>> => {
      await pace();
      if (isLimited) return { message, attempt: { result: "unsent" } };
      const attempt = await channel.send(message);
      if (attempt.result === "limited") isLimited = true;
      logFailure(log, message.id, message.event_id, attempt);
      return { message, attempt };
    }),
  );
  if (attempts.length > 0) {
    await settleNotifications(database, outbox, attempts);
  }
  return attempts.map(({ attempt }) => attempt);
}

function logFailure(
  log: Log,
  notification_id: string,
  event_id: string | null,
  attempt: Result,
): void {
  if (!("error" in attempt)) return;
  const { result, error } = attempt;
  log("warn", "notification not delivered", {
    notification_id,
    event_id,
    result,
    error,
  });
}
