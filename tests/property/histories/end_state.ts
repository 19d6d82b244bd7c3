import { assertEquals } from "@std/assert";
import type { Sql } from "postgres";
import type { History } from "./history.ts";
import { modelState } from "./model.ts";

export async function assertEndState(
  { events }: Pick<History, "events">,
  sql: Sql,
): Promise<void> {
  const expected = modelState(events);
  const eventIds = sql.json(events.map((event) => event.id));
  const recordIds = sql.json([...expected.records.keys()]);
  const [actual] = await sql<{ state: unknown }[]>`
    with ids as (
      select 'a' as provider, jsonb_array_elements_text(${eventIds}) as event_id
    )
    select jsonb_build_object(
      'records', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'id', s.id,
          'account_id', s.account_id,
          'status', s.status,
          'plan_id', s.plan_id,
          'current_period_end', extract(epoch from s.current_period_end)::bigint,
          'provider_status', s.provider_status,
          'customer_id', s.customer_id,
          'quantity', s.quantity,
          'items', s.items,
          'cancel_at', extract(epoch from s.cancel_at)::bigint,
          'trial_end', extract(epoch from s.trial_end)::bigint,
          'paused', s.paused,
          'livemode', s.livemode,
          'past_due_since', extract(epoch from s.past_due_since)::bigint,
          'had_trial', s.had_trial,
          'canceled', s.canceled_at is not null
        ) order by s.id), '[]')
        from billing.subscriptions s
        where s.id in (select jsonb_array_elements_text(${recordIds}))
      ),
      'notifications', (
        select coalesce(jsonb_agg(jsonb_build_array(n.event_id, n.account_id) order by n.event_id), '[]')
        from billing.notifications n join ids using (provider, event_id)
      ),
      'ledger', (
        select count(*) from billing.processed_events p join ids using (provider, event_id)
      ),
      'open_failures', (
        select count(*) from billing.failed_events f join ids using (provider, event_id)
        where f.resolved_at is null
      )
    ) as state`;

  assertEquals<unknown>(actual?.state, {
    records: [...expected.records.values()].sort(byId),
    notifications: [...expected.notifications].sort(),
    ledger: events.length,
    open_failures: 0,
  });
}

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}
