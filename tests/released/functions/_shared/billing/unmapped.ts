/**
 * Unmapped subscriptions: a provider account that also sells other products
 * sends their events too. They have no account id.
 *
 * @module
 */
import type { DeliveryError } from "./errors.ts";
import { member } from "./fields.ts";

/** The choices for events of subscriptions without an account. */
export const UNMAPPED_CHOICES = ["fail", "ignore"] as const;

/** See `UNMAPPED_SUBSCRIPTIONS` in the README. */
export type UnmappedChoice = typeof UNMAPPED_CHOICES[number];

/**
 * Returns whether an event failed only because its subscription has no account:
 * a creation without an account id, or an event without one for a subscription
 * that is not recorded. Stripe puts a subscription's metadata into each of its
 * events, so an event that merely arrives before its creation has an account id.
 *
 * @param text The event as text.
 */
export function isUnmapped(error: DeliveryError, text: string): boolean {
  switch (error.code) {
    case "subscription_unknown":
      return lacksAccountId(JSON.parse(text));
    case "event_invalid": {
      const event = JSON.parse(text);
      return member(event, "type") === "customer.subscription.created" &&
        lacksAccountId(event);
    }
    default:
      return false;
  }
}

/**
 * Returns whether an event has no account id in any place where Stripe puts the
 * metadata of a subscription. A malformed account id is not a missing one.
 */
export function lacksAccountId(event: unknown): boolean {
  const object = member(member(event, "data"), "object");
  if (!isRecord(object)) return false;
  const lines = member(object["lines"], "data");
  const holders = [
    object,
    object["subscription"],
    object["subscription_details"],
    member(object["parent"], "subscription_details"),
    ...(Array.isArray(lines) ? lines : []),
  ];
  return holders.every((holder) => namesNoAccount(member(holder, "metadata")));
}

function namesNoAccount(metadata: unknown): boolean {
  if (metadata === undefined || metadata === null) return true;
  if (!isRecord(metadata)) return false;
  const account = member(metadata, "accountId");
  return account === undefined || account === null ||
    (typeof account === "string" && account.trim() === "");
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
