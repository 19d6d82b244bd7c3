import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { readByIds, readPages, ROWS_PER_PAGE, send } from "./database_calls.ts";
import type { Wait } from "./retry.ts";

/** A row of `billing_records`, without the column that is not compared. */
export type SubscriptionRecord = Readonly<
  Omit<
    Database["public"]["Views"]["billing_records"]["Row"],
    "past_due_since"
  >
>;

/** The tables of one provider. */
export interface ProviderTables {
  readonly database: DatabaseClient;
  readonly provider: string;
  readonly wait: Wait;
}

/**
 * A Stripe account that also sells other products may have thousands of customers
 * that nobody here knows. Well under the connections that a project's API has.
 */
const CALLS_AT_ONCE = 10;

/** Reads the records of some subscriptions, of any provider, by id. */
export async function recordsOf(
  ids: readonly string[],
  { database, wait }: ProviderTables,
): Promise<Map<string, SubscriptionRecord>> {
  const rows = await readByIds<SubscriptionRecord>(
    ids,
    (part) =>
      database.from("billing_records")
        .select(
          "id, provider, account_id, status, plan_id, current_period_end, canceled_at, provider_status, customer_id, quantity, cancel_at, trial_end, paused, livemode, account_as_of, changed_as_of, changed_by_update, canceled_as_of",
        )
        .in("id", part),
    wait,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Asks `billing.account_of_customer`, as the receiver does for a creation without an
 * account ID. A call per customer, because the project may have replaced the
 * function.
 *
 * @returns the accounts that are known, by customer.
 */
export async function accountsOfCustomers(
  customers: Iterable<string>,
  tables: ProviderTables,
): Promise<Map<string, string>> {
  const accounts = new Map<string, string>();
  const waiting = [...new Set(customers)];
  while (waiting.length > 0) {
    await Promise.all(
      waiting.splice(0, CALLS_AT_ONCE).map(async (customer) => {
        const account = await accountOfCustomer(customer, tables);
        if (account) accounts.set(customer, account);
      }),
    );
  }
  return accounts;
}

async function accountOfCustomer(
  customer_id: string,
  { database, provider, wait }: ProviderTables,
): Promise<string | null | undefined> {
  const [account] = await send(() => ({
    abortSignal: async (signal) => {
      const answer = await database
        .rpc("billing_account_of_customer", { provider, customer_id })
        .abortSignal(signal);
      // In an array, because null is an answer here: not known.
      return { ...answer, data: [answer.data] };
    },
  }), wait);
  return account;
}

/** Reads the ids of all of a provider's subscriptions. */
export async function allSubscriptionIds(
  { database, provider, wait }: ProviderTables,
): Promise<string[]> {
  const rows = await readPages<{ id: string }>(
    (last) =>
      database.from("billing_subscriptions")
        .select("id")
        .eq("provider", provider)
        .gt("id", last)
        .order("id")
        .limit(ROWS_PER_PAGE),
    ({ id }) => id,
    wait,
  );
  return rows.map(({ id }) => id);
}
