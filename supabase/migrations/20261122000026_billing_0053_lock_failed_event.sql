/*
 * Locks the open row in failed_events of an event that is about to be applied.
 * It does not wait: 55P03 if another transaction has locked the row.
 *
 * A repair must not get lost. So an event with a repaired row is applied only
 * by the worker that has claimed the repaired payload. And a worker does not
 * apply an event whose row was repaired, resolved or claimed again after its
 * claim; it can tell by the lease, which a repair ends. Its error is this
 * service's own SQLSTATE:
 *   BW004  a repaired payload of this event waits for its retry
 *
 * It reads its own row only. For resolved_at is null, Postgres may take the index
 * of open failures without a key, because that is tiny until something goes wrong:
 * then each event read all of them, until the next analyze. resolution is null for
 * the same rows, and that index cannot be used for it. A plan that was made while
 * the table was empty would scan it and be kept, so scans are switched off.
 */
create or replace function public.lock_failed_event(p_provider text, p_event_id text, p_retry jsonb)
returns boolean
language plpgsql
volatile
set search_path = ''
set enable_seqscan = off
as $$
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
$$;
