/**
 * The least that SQL can do to apply events once: two statements for a whole
 * array, which claim the events and write what they say. There is no rule about
 * their order, no check of failures and no event that could fail by itself, so
 * this is no receiver to use. It shows what a receiver would reach if the rules
 * cost nothing.
 *
 * @module
 */
import postgres from "postgres";

const DEFINITION = `
create or replace function public.billing_apply_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text)
language plpgsql
set search_path = ''
-- By key: an array of a few events must not scan the table.
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
as $$
begin
  insert into billing.processed_events (provider, event_id, type)
  select e.provider, e.event_id, e.type
  from jsonb_to_recordset(events) as e (provider text, event_id text, type text)
  order by e.provider, e.event_id
  on conflict do nothing;

  update billing.subscriptions s set
    status = r.provider_status,
    plan_id = r.plan_id,
    current_period_end = r.current_period_end,
    provider_status = r.provider_status,
    customer_id = r.customer_id,
    quantity = r.quantity,
    cancel_at = r.cancel_at,
    trial_end = r.trial_end,
    paused = r.paused,
    livemode = r.livemode,
    changed_as_of = (extract(epoch from e.occurred_at) * 4000000)::bigint + 1
  from jsonb_to_recordset(events) as e (
    subscription_id text,
    occurred_at timestamptz,
    report jsonb
  ), jsonb_to_record(e.report) as r (
    plan_id text,
    current_period_end timestamptz,
    provider_status text,
    customer_id text,
    quantity integer,
    cancel_at timestamptz,
    trial_end timestamptz,
    paused text,
    livemode boolean
  )
  where s.id = e.subscription_id;

  return query
  select i, 'applied', null::text, null::text
  from generate_series(1, jsonb_array_length(events)) as i;
end;
$$`;

/**
 * Puts the least SQL into the place of `billing_apply_events`.
 *
 * @returns what puts the function back
 */
export async function useLeastSql(
  databaseUrl: string,
): Promise<AsyncDisposable> {
  const sql = postgres(databaseUrl, { max: 1 });
  const [row] = await sql<[{ definition: string }]>`
    select pg_get_functiondef('public.billing_apply_events(jsonb)'::regprocedure)
      as definition`;
  await sql.unsafe(DEFINITION);
  return {
    async [Symbol.asyncDispose]() {
      await sql.unsafe(row.definition);
      await sql.end();
    },
  };
}
