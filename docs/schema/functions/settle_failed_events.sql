-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000019_billing_0019_claim_failed_events.sql

CREATE OR REPLACE FUNCTION public.settle_failed_events(results jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  locked jsonb;
  settled integer;
begin
  -- First, as everywhere: ledger, then failed_events.
  select c.failures into locked
  from public.claim_billing_events((
    select jsonb_agg(jsonb_build_object(
      'provider', f.provider, 'event_id', f.event_id, 'type', coalesce(f.type, '')
    ))
    from jsonb_to_recordset(results) as r (
      provider text, event_id text, lease_id uuid, outcome text
    )
    join public.failed_events f on f.provider = r.provider and f.event_id = r.event_id
    where r.outcome in ('applied', 'duplicate', 'stale')
      -- What was applied is resolved already, which has ended its lease.
      and (f.retry_lease_id = r.lease_id or f.resolution in ('applied', 'duplicate', 'stale'))
  )) as c;

  with unlocked as materialized (
    select r.*
    from jsonb_to_recordset(results) as r (
      provider text,
      event_id text,
      lease_id uuid,
      outcome text,
      error_code text,
      error text
    )
    join public.failed_events o
      on o.provider = r.provider and o.event_id = r.event_id and o.retry_lease_id = r.lease_id
    where o.resolved_at is null
      and not locked ? (r.provider || '/' || r.event_id)
    for update of o skip locked
  )
  update public.failed_events f set
    resolved_at = case when r.outcome <> 'failed' then now() end,
    resolution = case when r.outcome <> 'failed' then r.outcome end,
    error_code = case when r.outcome = 'failed' then r.error_code else f.error_code end,
    error = case when r.outcome = 'failed' then r.error else f.error end,
    attempts = f.attempts + case when r.outcome = 'failed' then 1 else 0 end,
    last_failed_at = case when r.outcome = 'failed' then now() else f.last_failed_at end,
    retry_requested_at = null,
    retry_leased_until = null,
    retry_lease_id = null
  from unlocked r
  where f.provider = r.provider and f.event_id = r.event_id;
  get diagnostics settled = row_count;
  return settled;
end;
$function$;

comment on function public.settle_failed_events(jsonb) is 'Stores the outcomes of retries. results: provider, event_id, lease_id, outcome (applied, duplicate, stale, ignored or failed), error_code, error. Returns how many rows were still open and leased to the caller.';

revoke all on function public.settle_failed_events(jsonb) from public;

grant EXECUTE on function public.settle_failed_events(jsonb) to service_role;
