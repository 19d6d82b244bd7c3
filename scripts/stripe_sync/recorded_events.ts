import { readByIds, readPages, ROWS_PER_PAGE } from "./database_calls.ts";
import type { ProviderTables } from "./records.ts";

/** Reads all open failures of a provider's events. */
export function openFailures({ database, provider, wait }: ProviderTables) {
  return readPages(
    (last) =>
      database.from("billing_failed_events")
        .select(
          "event:event_id, type, subscription:subscription_id, error_code",
        )
        .eq("provider", provider)
        .is("resolved_at", null)
        .gt("event_id", last)
        .order("event_id")
        .limit(ROWS_PER_PAGE),
    ({ event }) => event,
    wait,
  );
}

/** Returns which of some events were applied, or resolved by hand after a failure. */
export async function settledEvents(
  ids: readonly string[],
  { database, provider, wait }: ProviderTables,
): Promise<Set<string>> {
  const applied = await readByIds(
    ids,
    (part) =>
      database.from("billing_processed_events")
        .select("event_id")
        .eq("provider", provider)
        .in("event_id", part),
    wait,
  );
  const resolved = await readByIds(
    ids,
    (part) =>
      database.from("billing_failed_events")
        .select("event_id")
        .eq("provider", provider)
        .eq("resolution", "by hand")
        .in("event_id", part),
    wait,
  );
  return new Set([...applied, ...resolved].map(({ event_id }) => event_id));
}
