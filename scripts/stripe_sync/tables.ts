import {
  applyEvents,
  type BillingEvent,
} from "../../supabase/functions/_shared/billing/database/apply_events.ts";
import {
  callDatabase,
  type DatabaseClient,
} from "../../supabase/functions/_shared/billing/database/client.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import { isTransient, retry, type Wait } from "./retry.ts";

export type SubscriptionRecord = Readonly<
  Database["public"]["Views"]["billing_records"]["Row"]
>;

export type Tables = ReturnType<typeof openTables>;

interface Query<T> {
  abortSignal: Parameters<typeof callDatabase<T>>[0];
}

const TIME_LIMIT_MS = 10_000;

/** The default maximum of rows per answer of Supabase's API. */
const ROWS_PER_PAGE = 1_000;

/** The IDs are part of the URL, which must stay short. */
const IDS_PER_CALL = 100;

/** Most groups have two events: about as many as the receiver sends per call. */
const GROUPS_PER_CALL = 25;

function* parts<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}

/** Each call has a time limit, and is repeated while the database has trouble. */
export function openTables(
  { database, provider }: { database: DatabaseClient; provider: string },
  wait: Wait,
) {
  /** @param query Builds the query; each try sends a new one. */
  function send<T>(query: () => Query<T>): Promise<T> {
    const limit = { timeLimitMs: TIME_LIMIT_MS };
    const call = (signal: AbortSignal) => query().abortSignal(signal);
    return retry(() => callDatabase(call, limit), wait);
  }

  async function readByIds<Row>(
    ids: readonly string[],
    query: (ids: string[]) => Query<Row[]>,
  ): Promise<Row[]> {
    const rows: Row[] = [];
    for (const part of parts(ids, IDS_PER_CALL)) {
      rows.push(...await send(() => query(part)));
    }
    return rows;
  }

  /** Reads by key, not by offset: rows added or deleted meanwhile shift nothing. */
  async function readPages<Key extends string, Row extends Record<Key, string>>(
    key: Key,
    query: (last: string) => Query<Row[]>,
  ): Promise<Row[]> {
    const rows: Row[] = [];
    for (let last = "";;) {
      const page = await send(() => query(last));
      if (page.length === 0) return rows;
      rows.push(...page);
      last = page.at(-1)![key];
    }
  }

  const failures = () =>
    database.from("billing_failed_events")
      .select("event:event_id, type, subscription:subscription_id, error_code")
      .eq("provider", provider);

  return {
    async recordsOf(ids: readonly string[]) {
      const rows = await readByIds(
        ids,
        (part) => database.from("billing_records").select("*").in("id", part),
      );
      return new Map(rows.map((row) => [row.id, row] as const));
    },

    async subscriptionIds(): Promise<string[]> {
      const rows = await readPages(
        "id",
        (last) =>
          database.from("billing_subscriptions").select("id")
            .eq("provider", provider)
            .gt("id", last).order("id").limit(ROWS_PER_PAGE),
      );
      return rows.map(({ id }) => id);
    },

    openFailures: () =>
      readPages("event", (last) =>
        failures().is("resolved_at", null)
          .gt("event_id", last).order("event_id").limit(ROWS_PER_PAGE)),

    async handlers(): Promise<Set<string>> {
      const [health] = await send(() =>
        database.from("billing_health").select("*")
      );
      return new Set(health?.handlers);
    },

    /** Returns which events were applied, or resolved by hand. */
    async settledEvents(ids: readonly string[]): Promise<Set<string>> {
      const applied = await readByIds(
        ids,
        (part) =>
          database.from("billing_processed_events").select("event:event_id")
            .eq("provider", provider).in("event_id", part),
      );
      const resolved = await readByIds(
        ids,
        (part) => failures().in("event_id", part).eq("resolution", "by hand"),
      );
      return new Set([...applied, ...resolved].map(({ event }) => event));
    },

    /** Returns what `billing.account_of_customer` finds; undefined if nothing. */
    async accountOfCustomer(customer_id: string): Promise<string | undefined> {
      const customer = { provider, customer_id };
      const [account] = await send(() => ({
        // In an array, because null is an answer here.
        abortSignal: (signal) =>
          database.rpc("billing_account_of_customer", customer)
            .abortSignal(signal)
            .then((answer) => ({ ...answer, data: [answer.data] })),
      }));
      return account ?? undefined;
    },

    /** Returns the IDs of the subscriptions that belong to an erased account. */
    async erasedOf(
      owners: readonly {
        subscription_id: string;
        account_id: string | null;
        customer_id: string | null;
      }[],
    ): Promise<Set<string>> {
      const events = owners.map(({ customer_id, ...ids }) => ({
        ...ids,
        provider,
        kind: "creation",
        report: { customer_id },
      }));
      if (events.length === 0) return new Set();
      return new Set(
        await send(() => database.rpc("billing_is_erased", { events })),
      );
    },

    /** A call is repeated while one of its events may succeed: the others are duplicates. */
    async apply(groups: readonly (readonly BillingEvent[])[]) {
      const failed: [BillingEvent, string][] = [];
      const waiting = groups.filter(({ length }) => length > 0);
      for (const part of parts(waiting, GROUPS_PER_CALL)) {
        const events = part.flat();

        let outcomes: Awaited<ReturnType<typeof applyEvents>> = [];
        await retry(async () => {
          outcomes = await applyEvents(events, { database });
          const transient = outcomes.find(isTransient);
          if (transient !== undefined) throw transient;
        }, wait).catch((error) => {
          if (outcomes.length === 0) throw error;
        });

        for (const [i, outcome] of outcomes.entries()) {
          if (typeof outcome === "string") continue;
          failed.push([events[i]!, outcome.message]);
        }
      }
      return { failed };
    },
  };
}
