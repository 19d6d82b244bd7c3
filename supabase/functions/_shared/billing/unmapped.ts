/**
 * Subscriptions that are not ours: an account that sells other products too
 * sends their events as well. They are known by what is missing, an account id.
 *
 * @module
 */
import type { DeliveryError } from "./errors.ts";
import { member } from "./fields.ts";

/** What is done with events of subscriptions that belong to no account. */
export const UNMAPPED_CHOICES = ["fail", "ignore"] as const;

/** See `UNMAPPED_SUBSCRIPTIONS` in the README. */
export type UnmappedChoice = typeof UNMAPPED_CHOICES[number];

/**
 * Whether an event failed only because its subscription belongs to no account:
 * a creation without an account id, or an event without one for a subscription
 * that is not recorded. Stripe puts a subscription's metadata into each of its
 * events, so what is merely ahead of its creation carries one, and is not meant.
 *
 * @param text The event's body. It is parsed again for the codes in question.
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
 * Whether an event names no account at any place where Stripe puts the metadata
 * of a subscription. One that is malformed is not the same as none.
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
