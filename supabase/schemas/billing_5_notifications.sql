-- The outbox at work: notifications to accounts, and alerts to the operator.

-- The waits between attempts to deliver a notification, as in the Standard Webhooks specification. The first attempt
-- is made at once, so there is one more than there are waits. After the last one, about three days later, it is dead.
create or replace function billing.notification_waits()
returns interval[] language sql immutable set search_path = ''
return '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];

-- Returns why a notification is not true, or no longer; null if it is. may_change: the event of the end of a trial is
-- newer than the record, so the update that set it may still come.
create or replace function billing.untrue(n billing.notifications, out reason text, out may_change boolean)
language plpgsql stable set search_path = '' as $$
declare
  s billing.subscriptions;
begin
  select * into s from billing.subscriptions o where o.id = n.subscription_id;
  may_change := n.kind = 'trial_ending' and n.trial_end > now()
    and billing.time_of(greatest(s.changed_as_of, s.canceled_as_of)) < n.occurred_at;
  reason := case
    when n.kind in ('payment_failed', 'action_required') then case
      when s.recovered_as_of > n.occurred_at then 'The subscription is active again.'
      when s.status = 'canceled' then 'The subscription has ended.'
      when s.provider_status = 'incomplete_expired' then 'The subscription never began.'
    end
    when n.kind = 'trial_ending' then case
      when s.status = 'canceled' then 'The subscription has ended.'
      when s.trial_end is null or s.trial_end <= now() then 'The trial has ended.'
      when s.trial_end is distinct from n.trial_end then 'The trial ends at another time.'
      when s.provider_status is distinct from 'trialing' then 'It is no trial any more.'
    end
    when n.kind = 'recovered' then case
      when s.status is distinct from 'active' then 'The subscription is not active any more.'
      when n.occurred_at < now() - interval '3 days' then 'It is more than three days ago.'
    end
    when n.kind = 'ended' and s.status is distinct from 'canceled' then 'The subscription goes on.'
  end;
end;
$$;

-- The attempt is counted here, before sending, so that a notification that crashes every worker is given up in the end.
-- One that is not settled is due again after a minute. Each is checked here: one that is not true is withdrawn, or due
-- again after a minute if it may become true. So that a call stays short, it checks at most a thousand; if it has
-- handed out none of them, the run is to go on.
create or replace function public.billing_claim_notifications(p_lease_id uuid, p_limit integer, p_destination text)
returns table (
  id uuid, attempt integer, kind text, provider text, event_id text, account_id text, subscription_id text,
  invoice_id text, hosted_invoice_url text, amount_due bigint, currency text, attempt_count integer,
  next_payment_attempt timestamptz, trial_end timestamptz, occurred_at timestamptz, created_at timestamptz
)
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  max_attempts constant integer := cardinality(billing.notification_waits()) + 1;
  due billing.notifications;
  fault record;
  claimed uuid[] := '{}';
begin
  if not billing.hold_lease('notifications', p_lease_id, p_destination) then
    return;
  end if;

  for due in
    select * from billing.notifications d
    where d.status = 'pending' and d.next_attempt_at <= now()
    order by d.next_attempt_at limit 1000
    for update skip locked
  loop
    fault := billing.untrue(due);
    if due.attempts >= max_attempts then
      update billing.notifications n set
        status = 'dead',
        last_error = concat_ws('; ', n.last_error, 'the worker of the last attempt did not report a result')
      where n.id = due.id;
    elsif fault.reason is null then
      claimed := claimed || due.id;
      exit when cardinality(claimed) >= p_limit;
    elsif fault.may_change then
      update billing.notifications n set next_attempt_at = now() + interval '60 s' where n.id = due.id;
    else
      update billing.notifications n set status = 'withdrawn', last_error = fault.reason where n.id = due.id;
    end if;
  end loop;
  if found and claimed = '{}' then
    update billing.leases l set is_wanted = true where l.queue = 'notifications';
  end if;

  return query
  update billing.notifications n set attempts = n.attempts + 1, next_attempt_at = now() + interval '60 s'
  where n.id = any (claimed)
  returning
    n.id, n.attempts, n.kind, n.provider, n.event_id, n.account_id, n.subscription_id, n.invoice_id,
    n.hosted_invoice_url, n.amount_due, n.currency, n.attempt_count, n.next_payment_attempt,
    n.trial_end, n.occurred_at, n.created_at;
end;
$$;
comment on function public.billing_claim_notifications is
  'Claims up to p_limit due notifications for a run of the worker and counts the attempt; none while another run has the queue, or while the receiver has asked for a pause.';

-- A failed notification is due again after the next wait plus up to 10 %, so that those that failed together are not
-- all due at the same time. Retry-After can make it later, at most by a day. `limited` (429) and `unsent` do not count
-- as attempts; a 429 pauses all notifications to the receiver, for a minute without Retry-After.
--
-- It does not wait for a notification that another session has locked, because the others would be sent again.
create or replace function public.billing_settle_notifications(p_lease_id uuid, p_destination text, results jsonb)
returns integer language plpgsql volatile set search_path = '' as $$
declare
  waits constant interval[] := billing.notification_waits();
  resume_at timestamptz;
  settled integer;
begin
  -- Another run may have claimed them since.
  perform from billing.leases l where l.queue = 'notifications' and l.lease_id = p_lease_id for update;
  if not found then
    return 0;
  end if;
  select billing.pause(p_destination, max(coalesce(r.retry_after_seconds, 60))) into resume_at
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited'
  having count(*) > 0;

  with unlocked as materialized (
    select o.id
    from jsonb_to_recordset(results) as c (id uuid)
    join billing.notifications o on o.id = c.id
    where o.status = 'pending'
    for update of o skip locked
  )
  update billing.notifications n set
    status = case
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
    end
  -- Numeric, because a date may be thousands of years away.
  from jsonb_to_recordset(results) as r (id uuid, result text, error text, retry_after_seconds numeric)
  where n.id = r.id and n.status = 'pending' and n.id in (select u.id from unlocked u);
  get diagnostics settled = row_count;
  return settled;
end;
$$;
comment on function public.billing_settle_notifications is
  'Stores the results of a run''s notifications. results: id, result (sent, failed, dead, undeliverable, limited or unsent), error, retry_after_seconds. Returns how many were settled: none if another run has the queue.';

-- Pauses a receiver for at least a second and at most a day. Returns until when.
create or replace function billing.pause(p_destination text, p_seconds numeric)
returns timestamptz language sql volatile set search_path = '' as $$
  insert into billing.pauses as p (destination, paused_until)
  values (p_destination, clock_timestamp() + make_interval(
    secs => least(greatest(p_seconds, 1), 86400)::double precision
  ))
  on conflict (destination) do update set paused_until = greatest(p.paused_until, excluded.paused_until)
  returning paused_until
$$;

-- Returns whether an open failure has no retry coming, or has failed the first one of its schedule.
create or replace function billing.is_alarming(f billing.failed_events)
returns boolean language sql immutable
return f.scheduled_retries > 0 or f.next_retry_at is null and f.retry_requested_at is null;

-- Alerts are a level and not rows of the outbox: what is open, compared with what the operator was told. So nothing
-- untrue is ever sent, and one that could not be sent is due again at the next run, with the same id.
--
-- failure_opened: of the failures with an error code that do not heal by themselves, more are open than the operator was
-- told, or the newest came later; at most one per code and hour. failures_resolved: the operator was told, and none is
-- open any more.
create or replace function public.billing_claim_alerts(p_lease_id uuid, p_destination text)
returns table (id uuid, kind text, alert jsonb, created_at timestamptz)
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
begin
  if not billing.hold_lease('notifications', p_lease_id, p_destination) then
    return;
  end if;
  -- If fewer are open than were reported, the next one is new.
  update billing.alerts a set reported = least(a.reported, (
    select count(*) from billing.failed_events f
    where f.error_code = a.error_code and f.resolved_at is null and billing.is_alarming(f)
  ))
  where a.reported > 0;

  return query
  select md5(concat_ws('/', d.kind, d.error_code, d.told_at))::uuid, d.kind, d.alert, now()
  from (
    select
      o.error_code, 'failure_opened' as kind, a.alerted_at as told_at,
      jsonb_strip_nulls(jsonb_build_object(
        'error_code', o.error_code,
        -- What Postgres says may repeat the data of an event.
        'error', case when o.error_code <> 'apply_failed' then left(newest.error, 500) end,
        'open', o.failures, 'new', greatest(o.failures - coalesce(a.reported, 0), 1),
        'first_failed_at', o.first_failed_at, 'last_failed_at', o.last_failed_at,
        'provider', newest.provider, 'event_id', newest.event_id, 'event_type', left(newest.type, 255)
      )) as alert
    from (
      select
        f.error_code, count(*) as failures, min(f.first_failed_at) as first_failed_at,
        max(f.last_failed_at) as last_failed_at
      from billing.failed_events f
      where f.resolved_at is null and billing.is_alarming(f)
      group by f.error_code
    ) as o
    left join billing.alerts a using (error_code)
    cross join lateral (
      select x.error, x.provider, x.event_id, x.type, x.first_failed_at
      from billing.failed_events x
      where x.error_code = o.error_code and x.resolved_at is null and billing.is_alarming(x)
      order by x.first_failed_at desc
      limit 1
    ) as newest
    where (o.failures > coalesce(a.reported, 0) or newest.first_failed_at > a.alerted_at)
      and (a.alerted_at is null or a.alerted_at <= now() - interval '1 hour')
    union all
    select
      a.error_code, 'failures_resolved', a.opened_at,
      jsonb_build_object('error_code', a.error_code, 'opened_at', a.opened_at, 'resolved', (
        select count(*) from billing.failed_events r where r.resolved_at >= a.opened_at and r.error_code = a.error_code
      ))
    from billing.alerts a
    where a.opened_at is not null and not exists (
      select from billing.failed_events f where f.error_code = a.error_code and f.resolved_at is null
    )
  ) as d;
end;
$$;
comment on function public.billing_claim_alerts is
  'Returns the alerts to the operator that are due, for a run of the worker; none while another run has the queue, or while the receiver has asked for a pause. Settle each with billing_settle_alerts.';

create or replace function public.billing_settle_alerts(p_lease_id uuid, p_destination text, results jsonb)
returns integer language plpgsql volatile set search_path = '' as $$
declare
  settled integer;
begin
  perform from billing.leases l where l.queue = 'notifications' and l.lease_id = p_lease_id for update;
  if not found then
    return 0;
  end if;
  perform billing.pause(p_destination, max(coalesce(r.retry_after_seconds, 60)))
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited'
  having count(*) > 0;

  -- Of failures_resolved, `open` is missing.
  insert into billing.alerts as a (error_code, opened_at, alerted_at, reported)
  select
    r.alert ->> 'error_code', case r.kind when 'failure_opened' then now() end, now(),
    coalesce(r.alert -> 'open', '0')::integer
  from jsonb_to_recordset(results) as r (result text, kind text, alert jsonb)
  where r.result = 'sent'
  on conflict (error_code) do update set
    opened_at = case when excluded.opened_at is not null then coalesce(a.opened_at, excluded.opened_at) end,
    alerted_at = case when excluded.opened_at is null then a.alerted_at else excluded.alerted_at end,
    reported = excluded.reported;
  get diagnostics settled = row_count;
  return settled;
end;
$$;
comment on function public.billing_settle_alerts is
  'Stores which alerts of a run were delivered. results: result (sent, failed or limited), kind and alert as claimed, retry_after_seconds. Returns how many were.';
