/**
 * A Stripe account as its API shows it: subscriptions that change over time, and
 * the events of these changes.
 *
 * @module
 */
import type {
  StripeEvent,
  SubscriptionObject,
} from "../../scripts/events/event_types.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { eventBody } from "../support/histories/event_body.ts";
import type { HistoryEvent, Values } from "../support/histories/history.ts";

/** A subscription as the API shows it. */
export type ShownSubscription = SubscriptionObject & {
  created: number;
  livemode: boolean;
  customer: string;
};

/** A Stripe account. */
export interface StripeAccount {
  /** By id, the oldest first. */
  readonly subscriptions: Map<string, ShownSubscription>;
  readonly events: Map<string, StripeEvent>;
  /** The IDs of the acknowledged events. */
  readonly delivered: Set<string>;
  /** The account's clock, in Unix seconds. */
  nowSeconds: number;
  /** Changes the account as an event says, and sets the clock to its time. */
  happen(event: HistoryEvent): void;
}

/** The version that the `stripe` package asks for. */
const API_VERSION = "2026-10-28.endive";

/** Returns an empty account. */
export function createStripeAccount(): StripeAccount {
  const account: StripeAccount = {
    subscriptions: new Map(),
    events: new Map(),
    delivered: new Set(),
    nowSeconds: 0,
    happen(event) {
      account.nowSeconds = Math.max(account.nowSeconds, event.created);
      account.events.set(event.id, eventBody(event) as StripeEvent);
      if (event.type === "invoice.payment_failed") return;
      const before = account.subscriptions.get(event.subscription);
      account.subscriptions.set(
        event.subscription,
        shownSubscription(event, before?.created ?? event.created),
      );
    },
  };
  return account;
}

/** Returns a subscription as the API shows it after an event. */
export function shownSubscription(
  { type, subscription, account, values }:
    & Pick<HistoryEvent, "type" | "subscription" | "account">
    & { values: Partial<Values> & Pick<Values, "status"> },
  created: number,
): ShownSubscription {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    { apiVersion: API_VERSION, subscription, account, ...values },
  );
  const isDeleted = type === "customer.subscription.deleted";
  return {
    ...object as ShownSubscription,
    created,
    status: isDeleted ? "canceled" : values.status,
  };
}
