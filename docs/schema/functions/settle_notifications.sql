-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000022_billing_0022_settle_notifications.sql

CREATE OR REPLACE FUNCTION public.settle_notifications(results jsonb, p_destination text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  waits constant interval[] := public.notification_waits();
  patience constant interval := (select sum(w.wait) from unnest(waits) as w (wait));
  resume_at timestamptz;
  settled integer;
begin
  select clock_timestamp() + make_interval(
    secs => max(least(greatest(coalesce(r.retry_after_seconds, 60), 1), 86400))::double precision
  )
  into resume_at
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited';

  if resume_at is not null then
    insert into public.notification_pace as p (destination, next_send_at)
    values (p_destination, resume_at)
    on conflict (destination) do update set next_send_at = greatest(p.next_send_at, resume_at);
  end if;

  with unlocked as materialized (
    select o.id
    from jsonb_to_recordset(results) as c (id uuid, lease_id uuid)
    join public.notifications o on o.id = c.id and o.lease_id = c.lease_id
    where o.status = 'pending'
    for update of o skip locked
  )
  update public.notifications n set
    status = case
      when r.result = 'limited' and n.limited_since < now() - patience then 'dead'
      when r.result in ('limited', 'unsent') then 'pending'
      when r.result <> 'failed' then r.result
      when n.attempts > cardinality(waits) then 'dead'
      else 'pending'
    end,
    -- Somebody may have set it to 0 meanwhile.
    attempts = greatest(n.attempts - (r.result in ('limited', 'unsent'))::integer, 0),
    last_error = case when r.result in ('sent', 'unsent') then n.last_error else r.error end,
    sent_at = case when r.result = 'sent' then now() end,
    next_attempt_at = case r.result
      when 'limited' then resume_at
      when 'unsent' then now()
      else now() + greatest(
        waits[least(n.attempts, cardinality(waits))] * (1 + random() * 0.1),
        make_interval(secs => least(coalesce(r.retry_after_seconds, 0), 86400))
      )
    end,
    limited_since = case
      when r.result = 'unsent' then n.limited_since
      -- Cleared if it is given up, so that someone who resets it starts anew.
      when r.result = 'limited' and not n.limited_since < now() - patience then n.limited_since
      when r.result = 'limited' and n.limited_since is null then now()
    end,
    lease_id = null
  from jsonb_to_recordset(results) as r (
    id uuid,
    lease_id uuid,
    result text,
    error text,
    -- Numeric, because a date may be thousands of years away.
    retry_after_seconds numeric
  )
  where n.id = r.id and n.lease_id = r.lease_id and n.status = 'pending'
    and n.id in (select u.id from unlocked u);
  get diagnostics settled = row_count;
  return settled;
end;
$function$;

comment on function public.settle_notifications(jsonb,text) is 'Stores the results of claimed notifications. results: id, lease_id, result (sent, failed, dead, undeliverable, limited or unsent), error, retry_after_seconds. Returns how many were settled; one that another worker has claimed, or that another session has locked, is not.';

revoke all on function public.settle_notifications(jsonb,text) from public;

grant EXECUTE on function public.settle_notifications(jsonb,text) to service_role;
