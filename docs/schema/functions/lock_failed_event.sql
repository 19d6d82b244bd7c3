-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000026_billing_0053_lock_failed_event.sql

CREATE OR REPLACE FUNCTION public.lock_failed_event(p_provider text, p_event_id text, p_retry jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
 SET enable_seqscan TO 'off'
AS $function$
declare
  lease constant uuid := p_retry ->> 'lease_id';
  is_filed boolean;
  failure record;
begin
  select f.original_payload is not null as is_repaired, f.retry_lease_id
  into failure
  from public.failed_events f
  where f.provider = p_provider and f.event_id = p_event_id and f.resolution is null
  for update nowait;
  is_filed := found;

  if is_filed and failure.is_repaired
    and (lease is null or failure.retry_lease_id is distinct from lease)
  then
    raise exception 'Event % was repaired in failed_events and waits for its retry.', p_event_id
      using errcode = 'BW004',
      hint = format('select public.retry_failed_event(%L);', p_event_id);
  end if;

  if lease is not null then
    -- The id in a repaired payload may differ from that of its row.
    perform
    from public.failed_events f
    where f.provider = p_provider and f.event_id = p_retry ->> 'event_id'
      and f.resolution is null and f.retry_lease_id = lease
    for update nowait;
    if not found then
      raise exception 'The row of % in failed_events was changed after its claim.', p_retry ->> 'event_id'
        using errcode = 'BW004';
    end if;
    is_filed := true;
  end if;
  return is_filed;
end;
$function$;

comment on function public.lock_failed_event(text,text,jsonb) is 'Locks the open failure of an event that is about to be applied, and the one that a worker has claimed; returns whether there is any. Raises 55P03 if another transaction has locked it, BW004 if a repaired payload waits. p_retry: {event_id, lease_id} of the row that a worker has claimed, or null.';

revoke all on function public.lock_failed_event(text,text,jsonb) from public;

grant EXECUTE on function public.lock_failed_event(text,text,jsonb) to service_role;
