import type { ListedFailure } from "../failures.ts";
import { asTyped } from "../../common/how_started.ts";
import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import type {
  Notification,
  SearchResult,
  Subscription,
  SubscriptionView,
} from "../records.ts";
import { timeElement } from "../time.ts";
import { visible } from "../visible.ts";
import { cardTable } from "./card_table.ts";
import { failureTable } from "./failure_table.ts";
import { notificationTable } from "./notifications.ts";
import { facts, linked, value } from "./parts.ts";

/** A subscription: its record, its failures and its notifications. */
export function subscriptionPage(
  id: string,
  { subscription, failures, notifications }: SubscriptionView,
): Html {
  return html`
    <h1 class="id">${visible(id)}</h1>
    <section aria-labelledby="record">
      <h2 id="record">Record</h2>
      ${subscription === undefined
        ? html`<p class="empty">There is no record: no creation of this subscription
        was applied.</p>`
        : record(subscription)}
    </section>
    ${relatedFailures(failures)} ${relatedNotifications(notifications)}
  `;
}

function record(row: Subscription): Html {
  return facts([
    ["Status", value(row.status)],
    ["Status at the provider", value(row.provider_status)],
    [
      "Account",
      linked(row.account_id, (q) => link("/search", { q })),
    ],
    ["Customer", value(row.customer_id)],
    ["Plan", value(row.plan_id)],
    ["Quantity", value(row.quantity)],
    ["Period ends", timeElement(row.current_period_end)],
    ["Trial ends", timeElement(row.trial_end)],
    ["Will be canceled", timeElement(row.cancel_at)],
    ["Canceled", timeElement(row.canceled_at)],
    ["Past due since", timeElement(row.past_due_since)],
    ["Collection paused", value(row.paused)],
    ["Provider", value(row.provider)],
    [
      "Mode",
      value(row.livemode === null ? null : row.livemode ? "live" : "test"),
    ],
    ["Newest event", timeElement(row.changed_as_of)],
  ]);
}

/** What was found by an ID. */
export function searchPage(q: string, found: SearchResult): Html {
  const { subscriptions, failures, ledger, notifications } = found;
  const count = subscriptions.length + failures.length + ledger.length +
    notifications.length;
  return html`
    <h1>Search: <span class="id">${visible(q)}</span></h1>
    ${count > 0 ? "" : html`
      <p class="empty">Nothing has this ID. The search compares whole IDs, of
      accounts, subscriptions, customers and events. An event that never arrived is
      not here either: <code>${asTyped(
        "reconcile",
      )}</code> asks Stripe for it.</p>
    `}
    ${ledger.map(({ provider, event_id, type, outcome, processed_at }) =>
      html`
        <p
          class="notice good">Event <span class="id">${visible(
            event_id,
          )}</span> (${visible(type)}, provider ${provider}) was handled
        ${timeElement(processed_at)}: ${outcome}.</p>
      `
    )}
    ${subscriptions.length === 0 ? "" : html`
      <section aria-labelledby="subscriptions">
        <h2 id="subscriptions">Subscriptions</h2>
        ${subscriptionTable(subscriptions)}
      </section>
    `}
    ${failures.length === 0 ? "" : relatedFailures(failures)}
    ${notifications.length === 0 ? "" : relatedNotifications(notifications)}
  `;
}

function subscriptionTable(rows: readonly Subscription[]): Html {
  return cardTable(rows, {
    columns: {
      Subscription: ({ id }) =>
        linked(id, (id) => link("/subscription", { id })),
      Account: (row) => visible(row.account_id),
      Status: (row) => visible(row.status),
      Plan: (row) => visible(row.plan_id),
      "Period ends": (row) => timeElement(row.current_period_end),
    },
  });
}

function relatedFailures(failures: readonly ListedFailure[]): Html {
  return html`
    <section aria-labelledby="failures">
      <h2 id="failures">Failures</h2>
      ${failureTable(failures, {
        caption: "Failures, the newest first",
        empty: html`No event of it is in the list of failures.`,
      })}
    </section>
  `;
}

function relatedNotifications(notifications: readonly Notification[]): Html {
  return html`
    <section aria-labelledby="notifications">
      <h2 id="notifications">Notifications</h2>
      ${notificationTable(notifications)}
    </section>
  `;
}
