/**
 * Live and test mode. A Connect platform's live endpoint receives test events
 * too, signed with the same secret.
 *
 * @module
 */

/** Which events a provider's endpoint is for. */
export const EVENT_MODES = ["live", "test", "any"] as const;

/** See `PROVIDER_A_MODE` in the README. */
export type EventMode = typeof EVENT_MODES[number];

/**
 * Whether an event says that it is of the mode that is not wanted. One that
 * does not say (`livemode` is missing or no boolean) is of either.
 */
export function isOfOtherMode(livemode: unknown, mode: EventMode): boolean {
  return mode !== "any" && typeof livemode === "boolean" &&
    livemode !== (mode === "live");
}
