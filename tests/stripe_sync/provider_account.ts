/**
 * A provider's account, as far as its API shows it: subscriptions that change
 * over time, and the events that told of it.
 *
 * @module
 */
import type {
  StripeEvent,
  SubscriptionObject,
} from "../../scripts/events/event_types.ts";
import { subscriptionEvent } from "../../scripts/events/event.ts";
import { eventBody } from "../support/histories/event_body.ts";
import type { HistoryEvent } from "../support/histories/history.ts";

/** A subscription as the API shows it. */
export type ShownSubscription = SubscriptionObject & {
  created: number;
  livemode: boolean;
  customer: string;
};

/** An account that lives through events. */
export interface ProviderAccount {
  /** By id, the oldest first. */
  readonly subscriptions: Map<string, ShownSubscription>;
  readonly events: Map<string, StripeEvent>;
  /** The ids of those that an endpoint has acknowledged. */
  readonly delivered: Set<string>;
  /** The account's clock, in Unix seconds. */
  now: number;
  /** Lives through an event; time goes on with it. */
  happen(event: HistoryEvent): void;
}

/** The version that the package asks for. */
const API_VERSION = "2026-10-28.endive";

/** An account in which nothing has happened yet. */
export function createProviderAccount(): ProviderAccount {
  const account: ProviderAccount = {
    subscriptions: new Map(),
    events: new Map(),
    delivered: new Set(),
    now: 0,
    happen(event) {
      account.now = Math.max(account.now, event.created);
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

/** A subscription as it stands after an event. */
export function shownSubscription(
  { type, subscription, account, values }: Pick<
    HistoryEvent,
    "type" | "subscription" | "account" | "values"
  >,
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
