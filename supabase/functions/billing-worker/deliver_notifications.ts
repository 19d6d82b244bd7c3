import type { DatabaseClient } from "../_shared/database.ts";
import type { Log } from "../_shared/log.ts";
import type { Attempt, Channel } from "./channels/channel.ts";
import { claimNotifications, settleNotifications } from "./outbox.ts";

/** What became of the notifications of one turn. */
export type NotificationCounts = Record<"claimed" | Attempt["result"], number>;

/** All are sent at once, so one batch takes as long as its slowest. */
const BATCH_SIZE = 20;

/** For a turn, in milliseconds; what is left by then waits for the next. */
const TURN_TIME = 20_000;

interface Options {
  readonly database: DatabaseClient;
  readonly channel: Channel | undefined;
  readonly log: Log;
  /** The clock, in milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Delivers due notifications, batch by batch: claim, send, settle. It goes on
 * while all is well and the turn's time is not over; a receiver that fails one
 * of a batch is spared the rest until the next turn. Without a channel it
 * claims nothing, and they stay pending.
 *
 * @throws {DeliveryError} Where the database fails.
 */
export async function deliverNotifications(
  { database, channel, log, now }: Options,
): Promise<NotificationCounts> {
  const counts = { claimed: 0, sent: 0, failed: 0, dead: 0, undeliverable: 0 };
  if (channel === undefined) return counts;

  const end = now() + TURN_TIME;
  do {
    const attempts = await deliverBatch({ database, channel, log });
    counts.claimed += attempts.length;
    for (const { result } of attempts) counts[result]++;
    if (attempts.length < BATCH_SIZE || attempts.some(isTrouble)) break;
  } while (now() < end);
  return counts;
}

/** Whether it says that the next ones would not get through either. */
function isTrouble({ result }: Attempt): boolean {
  return result === "failed" || result === "dead";
}

async function deliverBatch(
  { database, channel, log }: Omit<Options, "channel" | "now"> & {
    channel: Channel;
  },
): Promise<readonly Attempt[]> {
  const notifications = await claimNotifications(database, {
    limit: BATCH_SIZE,
  });
  const attempts = await Promise.all(
    notifications.map(async (notification) => ({
      notification,
      attempt: await channel.send(notification),
    })),
  );
  for (const { notification, attempt } of attempts) {
    if (attempt.result === "sent") continue;
    log("warn", "notification not delivered", {
      notification_id: notification.id,
      event_id: notification.event_id,
      result: attempt.result,
      error: attempt.error,
    });
  }
  if (attempts.length > 0) await settleNotifications(database, attempts);
  return attempts.map(({ attempt }) => attempt);
}
