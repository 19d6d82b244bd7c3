/*
 * Takes the results of a worker's attempts. What failed is due again after the
 * next wait, with up to 10 % on top, so that what failed together does not come
 * back together; a receiver's Retry-After can make it later, by a day at most.
 */
create function public.settle_notifications(results jsonb)
returns integer
language plpgsql
volatile
set search_path = ''
as $$
declare
  waits constant interval[] := public.notification_waits();
  settled integer;
begin
  update public.notifications n set
    status = case
      when r.result <> 'failed' then r.result
      when n.attempts > cardinality(waits) then 'dead'
      else 'pending'
    end,
    last_error = case when r.result = 'sent' then n.last_error else r.error end,
    sent_at = case when r.result = 'sent' then now() end,
    next_attempt_at = now() + greatest(
      waits[least(n.attempts, cardinality(waits))] * (1 + random() * 0.1),
      make_interval(secs => least(coalesce(r.retry_after_seconds, 0), 86400))
    ),
    lease_id = null
  from jsonb_to_recordset(results) as r (
    id uuid,
    lease_id uuid,
    result text,
    error text,
    -- A date may be thousands of years away.
    retry_after_seconds numeric
  )
  where n.id = r.id and n.lease_id = r.lease_id and n.status = 'pending';
  get diagnostics settled = row_count;
  return settled;
end;
$$;

revoke all on function public.settle_notifications(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.settle_notifications(jsonb) to service_role;

comment on function public.settle_notifications(jsonb) is
  'Settles claimed notifications: id, lease_id, result (sent, failed, dead or undeliverable), error, retry_after_seconds. Answers how many; one whose lease was taken over is not.';
