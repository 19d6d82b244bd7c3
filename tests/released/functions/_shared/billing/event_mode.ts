/**
 * Live and test mode. The live endpoint of a Connect platform also receives test
 * events, signed with the same secret.
 *
 * @module
 */

/** The choices for which events a provider's endpoint handles. */
export const EVENT_MODES = ["live", "test", "any"] as const;

/** See `PROVIDER_A_MODE` in the README. */
export type EventMode = typeof EVENT_MODES[number];

/**
 * Returns whether an event belongs to the mode that the endpoint does not
 * handle. An event without a boolean `livemode` belongs to either mode.
 */
export function isOfOtherMode(livemode: unknown, mode: EventMode): boolean {
  return mode !== "any" && typeof livemode === "boolean" &&
    livemode !== (mode === "live");
}
