import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database.ts";
import type { PatienceTools } from "./patiently.ts";
import { inPages, inParts, PAGE, readRows } from "./read_rows.ts";

/** A row of `subscriptions`, as far as it is compared. */
export interface SubscriptionRecord {
  readonly id: string;
  readonly provider: string;
  readonly account_id: string;
  readonly status: string;
  readonly plan_id: string;
  readonly current_period_end: string;
  readonly canceled_at: string | null;
  readonly account_as_of: string | null;
  readonly changed_as_of: string | null;
  readonly canceled_as_of: string | null;
}

/** An open failure, as far as it is reported. */
export interface OpenFailure {
  readonly event_id: string;
  readonly type: string | null;
  readonly subscription_id: string | null;
  readonly error_code: string;
}

/** The tables of one provider, and how patient to be with them. */
export interface Tables {
  readonly database: DatabaseClient;
  readonly provider: string;
  readonly tools: PatienceTools;
}

/** The records of some subscriptions, whichever provider's, by id. */
export async function recordsOf(
  ids: readonly string[],
  { database, tools }: Tables,
): Promise<Map<string, SubscriptionRecord>> {
  const rows = await inParts(
    ids,
    (part) =>
      readRows((signal) =>
        database.from("subscriptions")
          .select(
            "id, provider, account_id, status, plan_id, current_period_end, canceled_at, account_as_of, changed_as_of, canceled_as_of",
          )
          .in("id", part)
          .abortSignal(signal), tools),
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** The ids of all of a provider's subscriptions. */
export async function allSubscriptionIds(
  { database, provider, tools }: Tables,
): Promise<string[]> {
  const rows = await inPages(
    (last) =>
      readRows((signal) =>
        database.from("subscriptions")
          .select("id")
          .eq("provider", provider)
          .gt("id", last)
          .order("id")
          .limit(PAGE)
          .abortSignal(signal), tools),
    ({ id }) => id,
  );
  return rows.map(({ id }) => id);
}

/** All failures of a provider's events that are open. */
export function openFailures(
  { database, provider, tools }: Tables,
): Promise<OpenFailure[]> {
  return inPages(
    (last) =>
      readRows((signal) =>
        database.from("failed_events")
          .select("event_id, type, subscription_id, error_code")
          .eq("provider", provider)
          .is("resolved_at", null)
          .gt("event_id", last)
          .order("event_id")
          .limit(PAGE)
          .abortSignal(signal), tools),
    (row) => row.event_id,
  );
}

/** Which of some events are in the ledger. */
export async function appliedEvents(
  ids: readonly string[],
  { database, provider, tools }: Tables,
): Promise<Set<string>> {
  const rows = await inParts(
    ids,
    (part) =>
      readRows((signal) =>
        database.from("processed_events")
          .select("event_id")
          .eq("provider", provider)
          .in("event_id", part)
          .abortSignal(signal), tools),
  );
  return new Set(rows.map(({ event_id }) => event_id));
}

/** Which of some events failed and were settled by a person. */
export async function resolvedByHand(
  ids: readonly string[],
  { database, provider, tools }: Tables,
): Promise<Set<string>> {
  const rows = await inParts(
    ids,
    (part) =>
      readRows((signal) =>
        database.from("failed_events")
          .select("event_id")
          .eq("provider", provider)
          .eq("resolution", "by hand")
          .in("event_id", part)
          .abortSignal(signal), tools),
  );
  return new Set(rows.map(({ event_id }) => event_id));
}
