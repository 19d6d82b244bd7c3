import postgres from "postgres";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { setting } from "./test_environment.ts";

export function connect(max = 4): postgres.Sql {
  return postgres(setting("TEST_DATABASE_URL"), {
    max,
    onnotice() {},
    connection: { statement_timeout: HANG_LIMIT_MS },
  });
}

export type StoredEvent = Awaited<ReturnType<typeof storedEvent>>;

export async function storedEvent(sql: postgres.Sql, eventId: string) {
  const rowsOf = async (columns: string, table: string) => [
    ...await sql<Record<string, unknown>[]>`
      select ${sql.unsafe(columns)} from billing.${sql(table)}
      where event_id = ${eventId}`,
  ];
  const [ledger, failures, notifications] = await Promise.all([
    rowsOf("provider, type, outcome", "processed_events"),
    rowsOf("*", "failed_events"),
    rowsOf("*", "notifications"),
  ]);
  return { ledger, failures, notifications };
}

export async function rowCounts(
  sql: postgres.Sql,
): Promise<Record<string, number>> {
  const [row] = await sql`
    select
      (select count(*)::int from billing.subscriptions) as subscriptions,
      (select count(*)::int from billing.processed_events) as processed_events,
      (select count(*)::int from billing.failed_events) as failed_events,
      (select count(*)::int from billing.notifications) as notifications`;
  return { ...row };
}

export async function emptyTables(sql: postgres.Sql): Promise<void> {
  await sql`
    truncate billing.subscriptions, billing.processed_events,
      billing.failed_events, billing.alerts, billing.notifications,
      billing.pauses, billing.leases, billing.customers, billing.erasures,
      billing.grants`;
}
