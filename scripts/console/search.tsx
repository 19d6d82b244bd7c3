/** @jsxImportSource hono/jsx */
/**
 * The search for an ID, which is also the page of a subscription.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import { asTyped } from "../common/how_started.ts";
import { failuresWith, failureTable, PAGE_SIZE } from "./failures.tsx";
import {
  type Console,
  facts,
  linked,
  PROVIDERS,
  time,
  value,
} from "./layout.tsx";
import { notificationsWith, notificationTable } from "./notifications.tsx";
import type { Project, Row } from "./project.ts";
import { visible } from "./text.tsx";

/** A subscription's record. */
type Subscription = Row<"billing_records">;
type Found = Awaited<ReturnType<typeof search>>;

function recordsWith(project: Project, column: string, id: string) {
  return project.read("billing_records", {
    [column]: `eq.${id}`,
    // The index of customer_id begins with the provider.
    ...(column === "customer_id" && { provider: PROVIDERS }),
    limit: `${PAGE_SIZE}`,
  });
}

/** Finds what has an ID: of an account, a subscription, a customer or an event. */
async function search(project: Project, id: string) {
  const [records, failures, notifications, ledger] = await Promise.all([
    Promise.all(
      ["id", "account_id", "customer_id"]
        .map((column) => recordsWith(project, column, id)),
    ),
    Promise.all(
      ["event_id", "subscription_id", "account_id"]
        .map((column) => failuresWith(project, column, id)),
    ),
    Promise.all(
      ["event_id", "subscription_id"]
        .map((column) => notificationsWith(project, column, id)),
    ),
    project.read("billing_processed_events", {
      provider: PROVIDERS,
      event_id: `eq.${id}`,
    }),
  ]);
  return {
    records: records.flat(),
    failures: failures.flat(),
    notifications: notifications.flat(),
    ledger,
  };
}

/** Adds the search. */
export function addSearch({ app, project, show }: Console): void {
  app.get("/search", async (c) => {
    // No ID has a NUL, but what is pasted may.
    const q = (c.req.query("q") ?? "").replaceAll("\0", "").trim();
    const found = await search(project, q);
    return show(c, "Search", searchPage(q, found));
  });
}

function recordFacts(row: Subscription): Child {
  return facts({
    Status: value(row.status),
    "Status at the provider": value(row.provider_status),
    Account: linked(row.account_id),
    Customer: value(row.customer_id),
    Plan: value(row.plan_id),
    Quantity: value(row.quantity),
    "Period ends": time(row.current_period_end),
    "Trial ends": time(row.trial_end),
    "Will be canceled": time(row.cancel_at),
    Canceled: time(row.canceled_at),
    "Past due since": time(row.past_due_since),
    "Collection paused": value(row.paused),
    Provider: value(row.provider),
    Mode: row.livemode === null ? "–" : row.livemode ? "live" : "test",
    "Newest event": time(row.changed_as_of),
  });
}

function searchPage(q: string, found: Found): Child {
  const { records, failures, notifications, ledger } = found;
  return (
    <>
      <h1>Search: {visible(q)}</h1>
      {Object.values(found).every((rows) => rows.length === 0) && (
        <p>
          Nothing has this ID. The search compares whole IDs, of accounts,
          subscriptions, customers and events. An event that never arrived is
          not here either: <code>{asTyped("reconcile")}</code>{" "}
          asks Stripe for it.
        </p>
      )}
      {ledger.map((row) => (
        <article class="good">
          Event {visible(row.event_id)} ({value(row.type)}, provider{" "}
          {visible(row.provider)}) was handled: {value(row.outcome)}.{" "}
          {time(row.processed_at)}
        </article>
      ))}
      {records.map((row) => [
        <h2>Subscription {visible(row.id)}</h2>,
        recordFacts(row),
      ])}
      {failures.length > 0 && [
        records.length === 0 && failures[0]?.subscription_id === q && (
          <p>
            There is no record: no creation of this subscription was applied.
          </p>
        ),
        <h2>Failures</h2>,
        failureTable(failures, ""),
      ]}
      {notifications.length > 0 && [
        <h2>Notifications</h2>,
        notificationTable(notifications),
      ]}
    </>
  );
}
