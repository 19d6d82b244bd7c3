/**
 * Reads subscriptions, notifications and the ledger.
 *
 * @module
 */
import { PROVIDER_NAMES } from "../common/provider_settings.ts";
import { failuresWith, PAGE_SIZE } from "./failures.ts";
import { ask, type Project } from "./project.ts";

/** The states of a notification that was given up. */
export const GIVEN_UP = ["dead", "undeliverable"] as const;

/** The states of a notification that is not sent. */
export const UNSENT = ["pending", ...GIVEN_UP] as const;

/** A row of `billing_records`. */
export type Subscription = Awaited<
  ReturnType<typeof subscriptionsWith>
>[number];

/** A row of `billing_notifications`. */
export type Notification = Awaited<
  ReturnType<typeof notificationsWith>
>[number];

/** What is known about a subscription. */
export type SubscriptionView = Awaited<ReturnType<typeof readSubscription>>;

/** What was found by an ID. */
export type SearchResult = Awaited<ReturnType<typeof search>>;

/** Reads a subscription, its failures and its notifications. */
export async function readSubscription(project: Project, id: string) {
  const [subscriptions, failures, notifications] = await Promise.all([
    subscriptionsWith(project, "id", id),
    failuresWith(project, "subscription_id", id),
    notificationsWith(project, "subscription_id", id),
  ]);
  return { subscription: subscriptions[0], failures, notifications };
}

/** Finds what has an ID: of an account, a subscription, a customer or an event. */
export async function search(project: Project, id: string) {
  const [
    byId,
    byAccount,
    byCustomer,
    ofEvent,
    ofSubscription,
    ofAccount,
    ledger,
    notifications,
  ] = await Promise.all([
    subscriptionsWith(project, "id", id),
    subscriptionsWith(project, "account_id", id),
    subscriptionsWith(project, "customer_id", id),
    failuresWith(project, "event_id", id),
    failuresWith(project, "subscription_id", id),
    failuresWith(project, "account_id", id),
    readLedger(project, id),
    notificationsWith(project, "event_id", id),
  ]);
  return {
    subscriptions: [...byId, ...byAccount, ...byCustomer],
    failures: [...ofEvent, ...ofSubscription, ...ofAccount],
    ledger,
    notifications,
  };
}

async function subscriptionsWith(
  project: Project,
  column: "id" | "account_id" | "customer_id",
  value: string,
) {
  const { data } = await ask(project, (signal) => {
    const rows = project.database.from("billing_records").select(
      "id, provider, account_id, customer_id, status, provider_status, plan_id, quantity, current_period_end, cancel_at, canceled_at, trial_end, paused, livemode, past_due_since, changed_as_of",
    ).eq(column, value);
    // The index begins with the provider.
    return (column === "customer_id"
      ? rows.in("provider", PROVIDER_NAMES)
      : rows)
      .limit(PAGE_SIZE).abortSignal(signal);
  });
  return data;
}

const NOTIFICATION =
  "id, event_id, account_id, subscription_id, status, attempts, last_error, next_attempt_at, created_at, sent_at";

async function notificationsWith(
  project: Project,
  column: "subscription_id" | "event_id",
  value: string,
) {
  const { data } = await ask(project, (signal) => {
    const rows = project.database.from("billing_notifications").select(
      NOTIFICATION,
    )
      .eq(column, value);
    // The unique key begins with the provider.
    return (column === "event_id" ? rows.in("provider", PROVIDER_NAMES) : rows)
      .order("created_at", { ascending: false })
      .limit(PAGE_SIZE).abortSignal(signal);
  });
  return data;
}

async function readLedger(project: Project, eventId: string) {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_processed_events")
        .select("provider, event_id, type, outcome, processed_at")
        .in("provider", PROVIDER_NAMES).eq("event_id", eventId)
        .abortSignal(signal),
  );
  return data;
}

/** Returns the oldest notifications in these states, and how many there are. */
export async function listNotifications(
  project: Project,
  states: readonly Notification["status"][],
) {
  const { data, count } = await ask(
    project,
    (signal) =>
      project.database.from("billing_notifications")
        .select(NOTIFICATION, { count: "exact" })
        .in("status", [...states])
        .order("created_at").order("id")
        .limit(PAGE_SIZE).abortSignal(signal),
  );
  return { notifications: data, count };
}
