import { assertEquals } from "@std/assert";
import type { Sql } from "postgres";
import type { HistoryEvent } from "../support/histories/history.ts";
import { modelState } from "../support/histories/model.ts";

/**
 * Compares the records with what the model says after all events. That a
 * deletion left its time is asked for only where it is the last word: what was
 * deleted and came back before anybody listened left no trace at the provider.
 */
export async function assertRecords(
  events: readonly HistoryEvent[],
  sql: Sql,
): Promise<void> {
  const { records } = modelState(events);
  const rows = await sql`
    select id, account_id, status, plan_id,
      extract(epoch from current_period_end)::bigint::int as current_period_end,
      canceled_at is not null as canceled
    from public.subscriptions
    where id = any (${[...records.keys()]}) order by id collate "C"`;
  assertEquals(
    rows.map((row) => ({
      ...row,
      canceled: row["canceled"] && isLastWord(row),
    })),
    [...records.values()]
      .map((record) => ({ ...record, canceled: isLastWord(record) }))
      .sort((one, other) => one.id < other.id ? -1 : 1),
  );
}

function isLastWord({ status }: { status?: unknown }): boolean {
  return status === "canceled";
}
