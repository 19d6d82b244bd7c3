import type { DatabaseClient } from "../_shared/billing/database.ts";
import type { Log } from "../_shared/billing/log.ts";
import type { Channel } from "./channels/channel.ts";
import {
  type ClaimedNotification,
  claimNotifications,
  type Result,
  settleNotifications,
} from "./outbox.ts";

/** The results of the notifications of one run. */
export type NotificationCounts = Record<"claimed" | Result["result"], number>;

/**
 * Without a rate limit all are sent at once, so a batch takes as long as its
 * slowest.
 */
const BATCH_SIZE = 20;

/**
 * With a rate limit, a 429 wastes the send times that are booked, so few are
 * booked ahead.
 */
const PACED_BATCH_SECONDS = 2;

/** While one lane waits for replies and the database, the other one sends. */
const PACED_LANES = 2;

/**
 * For one run; the rest waits for the next run. As long as the interval of the
 * schedule (a minute), so that the next run starts when this one ends.
 */
const RUN_TIME_MS = 60_000;

/**
 * A request may use 2 s of CPU time on Supabase. An e-mail takes a little over
 * 1 ms of it, a webhook 0.2 ms (docs/decisions.md).
 */
const RUN_LIMIT = 1_000;

/** What is needed to deliver notifications. */
export interface DeliveryOptions {
  readonly database: DatabaseClient;
  /** Undefined if none is configured. */
  readonly channel: Channel | undefined;
  readonly log: Log;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
  /** Resolves after that many milliseconds. */
  readonly sleep: (ms: number) => Promise<void>;
}

/**
 * Delivers due notifications in batches: claim, send, settle. It continues while
 * notifications are due, some of them succeed, and the limits of the run are not
 * reached. If a whole batch fails, the rest waits for the next run. Without a
 * channel nothing is claimed, and notifications stay pending.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function deliverNotifications(
  options: DeliveryOptions,
): Promise<NotificationCounts> {
  const counts = {
    claimed: 0,
    sent: 0,
    failed: 0,
    dead: 0,
    undeliverable: 0,
    limited: 0,
    unsent: 0,
  };
  const { channel, clock } = options;
  if (channel === undefined) return counts;

  const endMs = clock() + RUN_TIME_MS;
  const lanes = channel.perSecond === undefined ? 1 : PACED_LANES;
  const done = await Promise.allSettled(
    Array.from({ length: lanes }, async () => {
      let results: readonly Result[];
      do {
        results = await deliverBatch(channel, options);
        counts.claimed += results.length;
        for (const { result } of results) counts[result]++;
      } while (
        isWorthwhile(results) && clock() < endMs &&
        counts.claimed < RUN_LIMIT
      );
    }),
  );
  const fault = done.find((lane) => lane.status === "rejected");
  if (fault !== undefined) throw fault.reason;
  return counts;
}

/** Returns whether another batch may find notifications and deliver them. */
function isWorthwhile(results: readonly Result[]): boolean {
  return results.some(({ result }) => result !== "failed" && result !== "dead");
}

async function deliverBatch(
  channel: Channel,
  { database, log, sleep }: DeliveryOptions,
): Promise<readonly Result[]> {
  const { destination, perSecond } = channel;
  const notifications = await claimNotifications(database, {
    limit: perSecond === undefined
      ? BATCH_SIZE
      : perSecond * PACED_BATCH_SECONDS,
    channel,
  });
  let isLimited = false;
  const attempts = await Promise.all(
    notifications.map(async (notification) => {
      if (notification.wait_ms > 0) await sleep(notification.wait_ms);
      const attempt: Result = isLimited
        ? { result: "unsent" }
        : await channel.send(notification);
      if (attempt.result === "limited") isLimited = true;
      logFailure(log, { notification, attempt });
      return { notification, attempt };
    }),
  );
  if (attempts.length > 0) {
    await settleNotifications(database, { attempts, destination });
  }
  return attempts.map(({ attempt }) => attempt);
}

function logFailure(
  log: Log,
  { notification, attempt }: {
    notification: ClaimedNotification;
    attempt: Result;
  },
): void {
  if (!("error" in attempt)) return;
  log("warn", "notification not delivered", {
    notification_id: notification.id,
    event_id: notification.event_id,
    result: attempt.result,
    error: attempt.error,
  });
}
