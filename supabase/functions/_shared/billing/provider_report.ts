/**
 * What the provider reports about a subscription, besides the fields that the
 * specification requires.
 *
 * Nothing here is required: a value that is missing or malformed is null and
 * never fails the event. So these are plain functions and not schemas, whose
 * faults nobody would read.
 *
 * @module
 */
import {
  isIdentifier,
  isRecord,
  isUnixSeconds,
  isWholeNumber,
  MAX_INTEGER,
  member,
} from "./fields.ts";

/** The columns that an event reports; null if it does not. */
export interface ProviderReport {
  readonly provider_status: string | null;
  readonly customer_id: string | null;
  readonly quantity: number | null;
  /** Unix seconds. */
  readonly cancel_at: number | null;
  /** Unix seconds. */
  readonly trial_end: number | null;
  readonly paused: string | null;
}

/** Returns what a subscription, as the provider sends it, reports. */
export function providerReport(subscription: unknown): ProviderReport {
  return {
    provider_status: identifierOrNull(member(subscription, "status")),
    customer_id: customerId(subscription),
    quantity: quantityOrNull(member(firstItem(subscription), "quantity")),
    cancel_at: cancelAt(subscription),
    trial_end: secondsOrNull(member(subscription, "trial_end")),
    paused: paused(member(subscription, "pause_collection")),
  };
}

/**
 * Returns what an update replaced: each value that the subscription reported
 * before the update, if it differs. A value that was null counts too.
 *
 * @param attributes The update's `previous_attributes`. They hold the old items
 * whole, but of other objects only the changed members.
 */
export function replacedReport(
  subscription: object,
  attributes: object,
): Partial<ProviderReport> {
  const held = member(subscription, "pause_collection");
  const replaced = member(attributes, "pause_collection");
  const before = providerReport({
    ...subscription,
    ...attributes,
    ...(isRecord(held) && isRecord(replaced) &&
      { pause_collection: { ...held, ...replaced } }),
  });
  const after = providerReport(subscription);
  return Object.fromEntries(
    Object.entries(before).filter(([name, value]) =>
      value !== after[name as keyof ProviderReport]
    ),
  );
}

/** Returns the customer of a subscription or invoice, expanded or not. */
export function customerId(object: unknown): string | null {
  const customer = member(object, "customer");
  return identifierOrNull(customer) ?? identifierOrNull(member(customer, "id"));
}

/** Returns whether an event is of live mode: by the event, or else by its object. */
export function livemode(event: unknown, object: unknown): boolean | null {
  const ofEvent = member(event, "livemode");
  if (typeof ofEvent === "boolean") return ofEvent;
  const ofObject = member(object, "livemode");
  return typeof ofObject === "boolean" ? ofObject : null;
}

/** Returns the first item of a subscription, or undefined. */
export function firstItem(subscription: unknown): unknown {
  const items = member(member(subscription, "items"), "data");
  return Array.isArray(items) ? items[0] : undefined;
}

/** Returns a value if it is a usable id or status, or else null. */
export function identifierOrNull(value: unknown): string | null {
  return isIdentifier(value) ? value : null;
}

/** Returns a value if it is a usable time in Unix seconds, or else null. */
export function secondsOrNull(value: unknown): number | null {
  return isUnixSeconds(value) ? value : null;
}

function quantityOrNull(value: unknown): number | null {
  return isWholeNumber(value, MAX_INTEGER) ? value : null;
}

/** Its own, or else the end of the period, at either place (moved_fields.ts). */
function cancelAt(subscription: unknown): number | null {
  const own = secondsOrNull(member(subscription, "cancel_at"));
  if (own !== null || member(subscription, "cancel_at_period_end") !== true) {
    return own;
  }
  return secondsOrNull(member(subscription, "current_period_end")) ??
    secondsOrNull(member(firstItem(subscription), "current_period_end"));
}

/**
 * How the collection of payments is paused. A pause without a usable behavior is
 * null like any malformed value, so it shuts nobody out: of the behaviors, only
 * `void` means that nothing is paid for, and nothing says that it is `void`.
 */
function paused(pauseCollection: unknown): string | null {
  return identifierOrNull(member(pauseCollection, "behavior"));
}
