/*
 * Claims events by inserting their rows into the ledger, in sorted order. A
 * concurrent call with the same event waits here until the first one commits
 * (then the event is a duplicate) or rolls back.
 *
 * Another transaction that locks a row of the ledger, such as that of a person
 * who deletes from it, must not make the other events wait. So if the rows
 * cannot be inserted together, each is tried by itself, and only the events
 * whose row is locked fail.
 */
create function public.claim_billing_events(
  events jsonb,
  out claimed text[],
  out failures jsonb
)
language plpgsql
volatile
set search_path = ''
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  event record;
begin
  failures := '{}';
  begin
    with claims as (
      insert into public.processed_events (provider, event_id, type)
      select distinct on (e.provider, e.event_id) e.provider, e.event_id, e.type
      from jsonb_to_recordset(events) as e (provider text, event_id text, type text)
      order by e.provider, e.event_id
      on conflict do nothing
      returning provider || '/' || event_id as claim
    )
    select coalesce(array_agg(claim), '{}') into claimed from claims;
    return;
  exception when lock_not_available then
    claimed := '{}';
    perform set_config('lock_timeout', '20ms', true);
  end;

  for event in
    select distinct on (e.provider, e.event_id)
      e.provider, e.event_id, e.type, e.provider || '/' || e.event_id as claim
    from jsonb_to_recordset(events) as e (provider text, event_id text, type text)
    order by e.provider, e.event_id
  loop
    begin
      insert into public.processed_events (provider, event_id, type)
      values (event.provider, event.event_id, event.type)
      on conflict do nothing;
      if found then
        claimed := claimed || event.claim;
      end if;
    exception when lock_not_available then
      failures := failures
        || jsonb_build_object(event.claim, jsonb_build_object('code', sqlstate, 'message', sqlerrm));
    end;
  end loop;
end;
$$;

revoke all on function public.claim_billing_events(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.claim_billing_events(jsonb) to service_role;

comment on function public.claim_billing_events(jsonb) is
  'Claims events in the ledger. Returns the claimed ones, as provider/event_id, and the failures of those whose row is locked. Called by apply_billing_events.';
