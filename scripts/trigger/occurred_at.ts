import type { EventType } from "../events/templates.ts";

/**
 * How long to wait before an event of this type is dated, in milliseconds.
 *
 * Events are dated in whole seconds, and within one second a creation counts
 * as older than an update or a deletion. Who types a creation after a deletion
 * means a new beginning, so a creation waits for a second that no earlier
 * command can have used.
 *
 * @param now in milliseconds
 */
export function millisecondsToWait(type: EventType, now: number): number {
  return type === "customer.subscription.created" ? 1000 - now % 1000 : 0;
}
