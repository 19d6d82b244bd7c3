-- The outbox at work: notifications to accounts, and alerts to the operator.

-- The waits between attempts to deliver a notification, as in the Standard Webhooks specification. The first attempt
-- is made at once, so there is one more than there are waits. After the last one, about three days later, it is dead.
create or replace function billing.notification_waits()
returns interval[] language sql immutable set search_path = ''
return '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];

-- Claims up to p_limit due notifications for a run; none while another run has the queue, or its receiver has a pause.
-- The attempt is counted here, before sending, so that a notification that crashes every worker is given up in the end.
-- One that is not settled is due again after a minute. So is the end of a trial that is newer than the record: the
-- update that set it may still come. Any other one that is not true is withdrawn. So that a call stays short, it checks
-- at most a thousand; if it has handed out none of them, the run is to go on.
create or replace function public.billing_claim_notifications(p_lease_id uuid, p_limit integer, p_destination text)
returns setof jsonb language plpgsql volatile set search_path = ''
set jit = off
set enable_seqscan = off -- a plan that was made while the tables were empty is kept
as $$
declare
  due record;
  told jsonb;
  claimed integer := 0;
begin
  if not billing.hold_lease('notifications', p_lease_id, p_destination) then
    return;
  end if;
  for due in
    select n.id, c.fault, case
      when n.attempts > cardinality(billing.notification_waits()) then 'dead'
      when c.fault is null or n.kind = 'trial_ending' and n.trial_end > now()
        and billing.time_of(greatest(s.changed_as_of, s.canceled_as_of)) < n.occurred_at then 'pending'
      else 'withdrawn'
    end as status
    from billing.notifications n
    -- With a limit, so that it is no join, whose plan may read all subscriptions.
    left join lateral (select * from billing.records r where r.id = n.subscription_id limit 1) as s on true
    cross join lateral (select case
      when n.attempts > cardinality(billing.notification_waits()) then
        concat_ws('; ', n.last_error, 'the worker of the last attempt did not report a result')
      when n.kind = 'ended' and s.status is distinct from 'canceled' then 'The subscription goes on.'
      when n.kind = 'recovered' and s.status is distinct from 'active' then 'The subscription is not active any more.'
      when n.kind = 'recovered' and n.occurred_at < now() - interval '3 days' then 'It is more than three days ago.'
      when n.kind <> 'ended' and s.status = 'canceled' then 'The subscription has ended.'
      when n.kind = 'trial_ending' and (s.trial_end > now()) is not true then 'The trial has ended.'
      when n.kind = 'trial_ending' and s.trial_end is distinct from n.trial_end then 'The trial ends at another time.'
      when n.kind = 'trial_ending' and s.provider_status is distinct from 'trialing' then 'It is no trial any more.'
      when n.kind not in ('payment_failed', 'action_required') then null
      when s.recovered_as_of > n.occurred_at then 'The subscription is active again.'
      when s.provider_status = 'incomplete_expired' then 'The subscription never began.'
    end) as c (fault)
    where n.status = 'pending' and n.next_attempt_at <= now()
    order by n.next_attempt_at limit 1000 for update of n skip locked
  loop
    update billing.notifications n set
      status = due.status, last_error = case due.status when 'pending' then n.last_error else due.fault end,
      attempts = n.attempts + (due.fault is null)::integer, next_attempt_at = now() + interval '60 s',
      -- Each attempt must say the same, so the first decides. The subscription that ended gives no access.
      still_has_access = case
        when n.kind = 'ended' and due.fault is null and n.attempts = 0 then public.billing_has_access(n.account_id)
        else n.still_has_access
      end
    where n.id = due.id returning to_jsonb(n) into told;
    if due.fault is null then
      return next told;
      claimed := claimed + 1;
      exit when claimed >= p_limit;
    end if;
  end loop;
  if found and claimed = 0 then
    update billing.leases l set is_wanted = true where l.queue = 'notifications';
  end if;
end;
$$;

-- Returns the results of a run, to be stored; none if another run has claimed since. Locks the queue. Pauses the
-- receiver if a result is `limited` (429): for a minute, or what it asked for, from a second to a day.
create or replace function billing.results_of(p_lease_id uuid, p_destination text, results jsonb)
returns jsonb language plpgsql volatile set search_path = '' as $$
begin
  perform from billing.leases l where l.queue = 'notifications' and l.lease_id = p_lease_id for update;
  if not found then
    return '[]';
  end if;
  insert into billing.pauses as p (destination, paused_until)
  select p_destination, clock_timestamp()
    + least(greatest(max(coalesce(r.retry_after_seconds, 60)), 1), 86400) * interval '1 s'
  -- Numeric, because a date may be thousands of years away.
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited' having count(*) > 0
  on conflict (destination) do update set paused_until = greatest(p.paused_until, excluded.paused_until);
  return results;
end;
$$;

-- Stores the results of a run's notifications, and returns how many. results: id, result (sent, failed, dead,
-- undeliverable, limited or unsent), error, retry_after_seconds. A failed one is due again after the next wait plus up
-- to 10 %, so that those that failed together are not all due at the same time; Retry-After can make it later, at most
-- by a day. `limited` and `unsent` do not count as attempts.
create or replace function public.billing_settle_notifications(p_lease_id uuid, p_destination text, results jsonb)
returns integer language plpgsql volatile set search_path = '' as $$
declare
  waits constant interval[] := billing.notification_waits();
  settled integer;
begin
  results := billing.results_of(p_lease_id, p_destination, results);
  update billing.notifications n set
    status = case
      when r.result in ('limited', 'unsent') or r.result = 'failed' and n.attempts <= cardinality(waits) then 'pending'
      else replace(r.result, 'failed', 'dead')
    end,
    -- Somebody may have set it to 0 meanwhile.
    attempts = greatest(n.attempts - (r.result in ('limited', 'unsent'))::integer, 0),
    last_error = case when r.result in ('sent', 'unsent') then n.last_error else r.error end,
    sent_at = case when r.result = 'sent' then now() end,
    next_attempt_at = case r.result
      when 'limited' then (select p.paused_until from billing.pauses p where p.destination = p_destination)
      when 'unsent' then now()
      else now() + greatest(
        waits[n.attempts] * (1 + random() * 0.1), least(coalesce(r.retry_after_seconds, 0), 86400) * interval '1 s'
      )
    end
  from jsonb_to_recordset(results) as r (id uuid, result text, error text, retry_after_seconds numeric)
  -- One that another session has locked is not waited for, because the others would be sent again.
  where n.id = r.id and n.status = 'pending' and n.id = any (array(
    select o.id from billing.notifications o join jsonb_to_recordset(results) as c (id uuid) using (id)
    where o.status = 'pending' for update of o skip locked
  ));
  get diagnostics settled = row_count;
  return settled;
end;
$$;

-- Alerts are computed, not stored: what is open, compared with what the operator was told. So nothing
-- untrue is ever sent, and one that could not be sent is due again at the next run, with the same id.
--   failure_opened: of the failures with a code that have no retry coming, or have failed the first one of their
--     schedule, more are open than the operator was told, or the newest came later; at most one per code and hour.
--   failures_resolved: the operator was told, and none is open any more.
--   handler_not_listed: handlers that are not among p_handlers, those of the listed types (null: not compared); at most
--     one a day.
create or replace function public.billing_claim_alerts(
  p_lease_id uuid, p_destination text, p_handlers text[] default null
)
returns table (id uuid, kind text, alert jsonb, created_at timestamptz)
language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
begin
  if not billing.hold_lease('notifications', p_lease_id, p_destination) then
    return;
  end if;
  return query
  with newest as materialized (
    select distinct on (f.error_code)
      f.error_code, f.provider, f.event_id, left(f.type, 255) as event_type, f.first_failed_at as newest_at,
      -- What Postgres says may repeat the data of an event.
      case when f.error_code <> 'apply_failed' then left(f.error, 500) end as error,
      count(*) over own as open, min(f.first_failed_at) over own as first_failed_at,
      max(f.last_failed_at) over own as last_failed_at
    from billing.failed_events f
    where f.resolved_at is null and (f.scheduled_retries > 0 or num_nonnulls(f.next_retry_at, f.retry_requested_at) = 0)
    window own as (partition by f.error_code)
    order by f.error_code, f.first_failed_at desc
  ),
  -- If fewer are open than were reported, the next one is new.
  fewer as (
    update billing.alerts a
    set reported = least(a.reported, coalesce((select n.open from newest n where n.error_code = a.error_code), 0))
    where a.reported > 0
  )
  select
    md5(concat_ws('/', 'failure_opened', n.error_code, a.alerted_at))::uuid, 'failure_opened', jsonb_strip_nulls(
      to_jsonb(n) - 'newest_at' || jsonb_build_object('new', greatest(n.open - coalesce(a.reported, 0), 1))
    ), now()
  from newest n left join billing.alerts a using (error_code)
  where (n.open > coalesce(a.reported, 0) or n.newest_at > a.alerted_at)
    and (a.alerted_at <= now() - interval '1 hour') is not false
  union all
  select
    md5(concat_ws('/', 'failures_resolved', a.error_code, a.opened_at))::uuid, 'failures_resolved',
    jsonb_build_object('error_code', a.error_code, 'opened_at', a.opened_at, 'resolved', (
      select count(*) from billing.failed_events f where f.resolved_at >= a.opened_at and f.error_code = a.error_code
    )), now()
  from billing.alerts a
  where a.opened_at is not null and not exists (
    select from billing.failed_events f where f.error_code = a.error_code and f.resolved_at is null
  )
  union all
  select
    md5(concat_ws('/', 'handler_not_listed', a.alerted_at))::uuid, 'handler_not_listed',
    jsonb_build_object('error_code', 'handler_not_listed', 'handlers', array_agg('billing.' || h.name order by h.name)), now()
  from unnest(billing.handlers()) as h (name)
  left join billing.alerts a on a.error_code = 'handler_not_listed'
  where h.name <> all (p_handlers) and (a.alerted_at <= now() - interval '1 day') is not false
  group by a.alerted_at;
end;
$$;

-- Stores which alerts were sent; returns how many. results: kind and alert as claimed, result, retry_after_seconds.
create or replace function public.billing_settle_alerts(p_lease_id uuid, p_destination text, results jsonb)
returns integer language plpgsql volatile set search_path = '' as $$
begin
  results := billing.results_of(p_lease_id, p_destination, results);
  insert into billing.alerts as a (error_code, opened_at, alerted_at, reported)
  select r.alert ->> 'error_code', case r.kind when 'failure_opened' then now() end, now(),
    coalesce(r.alert -> 'open', '0')::integer -- the others have none
  from jsonb_to_recordset(results) as r (result text, kind text, alert jsonb)
  where r.result = 'sent'
  on conflict (error_code) do update set
    opened_at = case when excluded.opened_at is not null then coalesce(a.opened_at, excluded.opened_at) end,
    -- Not by failures_resolved, which ends opened_at.
    alerted_at = case when a.opened_at is null or excluded.opened_at is not null then excluded.alerted_at else a.alerted_at end,
    reported = excluded.reported;
  return (select count(*) from jsonb_path_query(results, '$[*] ? (@.result == "sent")'));
end;
$$;
