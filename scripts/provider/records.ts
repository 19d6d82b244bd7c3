import type { DatabaseClient } from "../../supabase/functions/_shared/database.ts";
import { callDatabase } from "../../supabase/functions/_shared/database.ts";
import type { PatienceTools } from "./patiently.ts";
import { patiently } from "./patiently.ts";

/** A row of `subscriptions`, as far as it is compared. */
export interface SubscriptionRecord {
  readonly id: string;
  readonly provider: string;
  readonly account_id: string;
  readonly status: string;
  readonly plan_id: string;
  readonly current_period_end: string;
  readonly canceled_at: string | null;
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

const TIME_LIMIT = 10_000;

/** What Supabase's API gives at most in one answer, unless it is configured. */
const PAGE = 1_000;

/** Ids go into the address, which has to stay short. */
const IDS_AT_ONCE = 100;

/** The records of some subscriptions, whichever provider's, by id. */
export async function recordsOf(
  ids: readonly string[],
  { database, tools }: Tables,
): Promise<Map<string, SubscriptionRecord>> {
  const rows = await inParts(
    ids,
    (part) =>
      patiently(() =>
        callDatabase((signal) =>
          database.from("subscriptions")
            .select(
              "id, provider, account_id, status, plan_id, current_period_end, canceled_at",
            )
            .in("id", part)
            .abortSignal(signal), { timeLimit: TIME_LIMIT }), tools),
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** The ids of all of a provider's subscriptions. */
export async function allSubscriptionIds(
  { database, provider, tools }: Tables,
): Promise<string[]> {
  const rows = await inPages(
    (last) =>
      patiently(() =>
        callDatabase((signal) =>
          database.from("subscriptions")
            .select("id")
            .eq("provider", provider)
            .gt("id", last)
            .order("id")
            .limit(PAGE)
            .abortSignal(signal), { timeLimit: TIME_LIMIT }), tools),
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
      patiently(() =>
        callDatabase((signal) =>
          database.from("failed_events")
            .select("event_id, type, subscription_id, error_code")
            .eq("provider", provider)
            .is("resolved_at", null)
            .gt("event_id", last)
            .order("event_id")
            .limit(PAGE)
            .abortSignal(signal), { timeLimit: TIME_LIMIT }), tools),
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
      patiently(() =>
        callDatabase((signal) =>
          database.from("processed_events")
            .select("event_id")
            .eq("provider", provider)
            .in("event_id", part)
            .abortSignal(signal), { timeLimit: TIME_LIMIT }), tools),
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
      patiently(() =>
        callDatabase((signal) =>
          database.from("failed_events")
            .select("event_id")
            .eq("provider", provider)
            .eq("resolution", "by hand")
            .in("event_id", part)
            .abortSignal(signal), { timeLimit: TIME_LIMIT }), tools),
  );
  return new Set(rows.map(({ event_id }) => event_id));
}

async function inParts<Row>(
  ids: readonly string[],
  read: (part: string[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
    rows.push(...await read(ids.slice(i, i + IDS_AT_ONCE)));
  }
  return rows;
}

/** By key, not by offset: rows that come or go meanwhile shift nothing. */
async function inPages<Row>(
  read: (last: string) => Promise<Row[]>,
  keyOf: (row: Row) => string,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let last = "";;) {
    const page = await read(last);
    if (page.length === 0) return rows;
    rows.push(...page);
    last = keyOf(page.at(-1) as Row);
  }
}
