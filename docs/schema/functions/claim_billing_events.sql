-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000011_billing_0011_claim_billing_events.sql

CREATE OR REPLACE FUNCTION public.claim_billing_events(events jsonb, OUT claimed text[], OUT failures jsonb)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO ''
 SET lock_timeout TO '1s'
AS $function$
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
$function$;

comment on function public.claim_billing_events(jsonb) is 'Claims events in the ledger. Returns the claimed ones, as provider/event_id, and the failures of those whose row is locked. Called by apply_billing_events.';

revoke all on function public.claim_billing_events(jsonb) from public;

grant EXECUTE on function public.claim_billing_events(jsonb) to service_role;
