import type { Alert, Channel } from "./channels/channel.ts";
import {
  deliverNotifications,
  type DeliveryOptions,
  type NotificationCounts,
} from "./deliver_notifications.ts";
import { openAlerts } from "./outbox.ts";

/** What is needed to alert the operator. */
export interface AlertOptions extends Omit<DeliveryOptions, "channel"> {
  /** Undefined if none is configured. */
  readonly alertChannel?: Channel<Alert> | undefined;
}

/**
 * Writes the alerts that are due into the outbox, and delivers them like
 * notifications. Without a channel it does nothing, so that nothing piles up.
 *
 * @throws {DeliveryError} If a database call fails.
 */
export async function deliverAlerts(
  { alertChannel, ...options }: AlertOptions,
): Promise<NotificationCounts> {
  if (alertChannel !== undefined) await openAlerts(options.database);
  return await deliverNotifications({ ...options, channel: alertChannel });
}
