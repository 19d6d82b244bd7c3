import type { DatabaseClient } from "../_shared/database.ts";
import type { Log } from "../_shared/log.ts";
import type { Attempt, Channel } from "./channels/channel.ts";
import { claimNotifications, settleNotifications } from "./outbox.ts";

/** What became of one batch. */
export type NotificationCounts = Record<"claimed" | Attempt["result"], number>;

/** All are sent at once, so one batch takes as long as its slowest. */
const BATCH_SIZE = 20;

/**
 * Delivers one batch of due notifications: claim, send, settle. Without a
 * channel it claims nothing, and they stay pending.
 *
 * @throws {DeliveryError} Where the database fails.
 */
export async function deliverNotifications(
  { database, channel, log }: {
    database: DatabaseClient;
    channel: Channel | undefined;
    log: Log;
  },
): Promise<NotificationCounts> {
  const counts = { claimed: 0, sent: 0, failed: 0, dead: 0, undeliverable: 0 };
  if (channel === undefined) return counts;

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
    counts.claimed++;
    counts[attempt.result]++;
    if (attempt.result === "sent") continue;
    log("warn", "notification not delivered", {
      notification_id: notification.id,
      event_id: notification.event_id,
      result: attempt.result,
      error: attempt.error,
    });
  }
  if (attempts.length > 0) await settleNotifications(database, attempts);
  return counts;
}
