import type { DatabaseClient } from "../_shared/billing/database.ts";
import type { Log } from "../_shared/billing/log.ts";
import type { Channel } from "./channels/channel.ts";
import {
  type ClaimedNotification,
  claimNotifications,
  type Result,
  settleNotifications,
} from "./outbox.ts";

/** What became of the notifications of one turn. */
export type NotificationCounts = Record<"claimed" | Result["result"], number>;

/** Without a limit all are sent at once, so a batch takes as long as its slowest. */
const BATCH_SIZE = 20;

/** With a limit, what is booked is lost at a 429: so not much ahead. */
const PACED_BATCH_SECONDS = 2;

/** While one waits for answers and for the database, the other one sends. */
const PACED_LANES = 2;

/**
 * For a turn, in milliseconds; what is left by then waits for the next. As long
 * as the schedule's minute, so that one turn goes on where another ends.
 */
const TURN_TIME_MS = 60_000;

/**
 * A turn may use 2 s of processor time on Supabase. An e-mail takes a little
 * over 1 ms of it, a webhook 0.2 ms (docs/decisions.md).
 */
const TURN_LIMIT = 1_000;

/** What is needed to deliver notifications. */
export interface DeliveryOptions {
  readonly database: DatabaseClient;
  /** Undefined if none is configured. */
  readonly channel: Channel | undefined;
  readonly log: Log;
  /** The clock, in milliseconds since the epoch. */
  readonly clock: () => number;
  /** Resolves after that many milliseconds. */
  readonly sleep: (ms: number) => Promise<void>;
}

/**
 * Delivers due notifications, batch by batch: claim, send, settle. It goes on
 * while there are any, some get through, and the turn's limits are not reached;
 * a receiver that fails a whole batch is spared the rest until the next turn.
 * Without a channel it claims nothing, and they stay pending.
 *
 * @throws {DeliveryError} Where the database fails.
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

  const endMs = clock() + TURN_TIME_MS;
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
        counts.claimed < TURN_LIMIT
      );
    }),
  );
  const fault = done.find((lane) => lane.status === "rejected");
  if (fault !== undefined) throw fault.reason;
  return counts;
}

/** Whether another batch may find something, and get it through. */
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
