-- Alerts to the operator. They are computed, not stored: what is open, compared with what the
-- operator was told. So nothing untrue is ever sent, and one that could not be sent is due again,
-- with the same ID.

create table billing.alerts (
  -- That of a sweep ends with its provider: events_missed/a
  error_code text primary key,
  -- When the operator was first told since none was open; null once told that all are resolved.
  opened_at timestamptz,
  -- When the operator was last told of new ones: at most once an hour.
  alerted_at timestamptz not null,
  -- How many open failures the operator was told about.
  reported integer not null
);

comment on table billing.alerts is
  'What the operator was told about failures, per error code, and about handlers.';

-- Claims the alerts that are due: news, if the operator was last told of it long enough ago
-- (rests).
--   failure_opened: counts the open failures of a code. News if those that have no retry ahead, or
--     whose first scheduled retry failed, are more than the operator was told, or newer.
--   failures_resolved: the operator was told, and no failure of the code is open.
--   handler_not_listed: handlers that no listed type calls. The argument has those that one calls;
--     null: not compared.
--   events_missed: what sweeps have found, per provider.
--   api_key_refused, sweep_failed: a provider's sweeps have not succeeded.
create function public.billing_claim_alerts(
  lease_id uuid,
  destination text,
  handlers text[] default null
)
returns table (id uuid, kind text, alert jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = ''
as $$
begin
  if not billing.hold_lease('notifications', lease_id, destination) then
    return;
  end if;

  return query
  with newest as materialized (
    select distinct on (f.error_code)
      f.error_code,
      f.provider,
      f.event_id,
      left(f.type, 255) as event_type,
      f.first_failed_at as newest_at,
      -- What Postgres says may repeat an event's data.
      case when f.error_code <> 'apply_failed' then left(f.error, 500) end as error,
      count(*) over alike as open,
      count(*) filter (where d.is_due) over alike as due,
      min(f.first_failed_at) over alike as first_failed_at,
      max(f.last_failed_at) over alike as last_failed_at
    from billing.failed_events f
    cross join lateral (
      select f.scheduled_retries > 0
        or num_nonnulls(f.next_retry_at, f.retry_requested_at) = 0 as is_due
    ) as d
    where f.resolved_at is null
    window alike as (partition by f.error_code)
    order by f.error_code, d.is_due desc, f.first_failed_at desc
  ),

  -- If fewer are open than were reported, the next one is new.
  fewer as (
    update billing.alerts a
    set reported = least(
      a.reported,
      coalesce((select n.open from newest n where n.error_code = a.error_code), 0)
    )
    where a.reported > 0
  ),

  news as (
    select
      'failure_opened' as kind,
      n.error_code as code,
      null as provider, -- of a sweep
      interval '1 hour' as rests,
      to_jsonb(n) - '{newest_at,due}'::text[]
        || jsonb_build_object('new', greatest(n.open - coalesce(a.reported, 0), 1)) as alert
    from newest n
    left join billing.alerts a using (error_code)
    where n.due > coalesce(a.reported, 0) or n.due > 0 and n.newest_at > a.alerted_at

    union all
    select
      'failures_resolved',
      a.error_code,
      null,
      '0',
      jsonb_build_object(
        'opened_at', a.opened_at,
        'resolved', (
          select count(*)
          from billing.failed_events f
          where f.resolved_at >= a.opened_at and f.error_code = a.error_code
        )
      )
    from billing.alerts a
    where a.opened_at is not null
      and a.error_code not in (select n.error_code from newest n)

    union all
    select
      'handler_not_listed',
      'handler_not_listed',
      null,
      '1 day',
      jsonb_build_object('handlers', array_agg('billing.' || h.name order by h.name))
    from unnest(billing.handlers()) as h (name)
    where h.name <> all (handlers)
    having count(*) > 0

    union all
    select
      'events_missed',
      'events_missed',
      m.provider,
      '1 hour',
      jsonb_build_object(
        'missed', sum(m.events),
        'types', jsonb_object_agg(m.type, m.events),
        'found_until', max(m.found_until)
      )
    from (
      select f.provider, f.type, sum(f.events) as events, max(f.found_at) as found_until
      from billing.missed_events f
      where not f.is_reported and f.found_at > now() - interval '7 days'
      group by f.provider, f.type
    ) as m
    group by m.provider

    union all
    select
      c.code,
      c.code,
      s.provider,
      '1 day',
      jsonb_build_object('error', s.last_error, 'last_success_at', s.last_success_at)
    from billing.sweeps s
    cross join lateral (
      select coalesce(substring(s.last_error from '^api_key_refused'), 'sweep_failed') as code
    ) as c
    where s.wanted_at > now() - interval '1 hour'
      and (
        c.code = 'api_key_refused'
        or greatest(s.last_success_at, s.wanted_since) < now() - interval '3 hours'
      )
  )

  select
    md5(concat_ws('/', n.kind, n.code, n.provider, a.alerted_at))::uuid,
    n.kind,
    jsonb_strip_nulls(
      jsonb_build_object('error_code', n.code, 'provider', n.provider) || n.alert
    ),
    now()
  from news n
  left join billing.alerts a on a.error_code = concat_ws('/', n.code, n.provider)
  where (a.alerted_at <= now() - n.rests) is not false;
end;
$$;

-- Stores which alerts were sent; returns how many. results: kind, alert and created_at as claimed,
-- result, retry_after_seconds.
create function public.billing_settle_alerts(
  lease_id uuid,
  destination text,
  results jsonb
)
returns integer
language plpgsql volatile
set search_path = ''
as $$
declare
  sent constant jsonb := jsonb_path_query_array(
    billing.accept_results(lease_id, destination, results),
    '$[*] ? (@.result == "sent")'
  );
begin
  insert into billing.alerts as a (error_code, opened_at, alerted_at, reported)
  select
    -- Sweeps have alerts of their own for each provider.
    concat_ws('/', r.alert ->> 'error_code', case
      when r.kind <> 'failure_opened' then r.alert ->> 'provider'
    end),
    case when r.kind = 'failure_opened' then now() end,
    coalesce(r.created_at, now()),
    coalesce(r.alert -> 'open', '0')::integer -- only failure_opened has it
  from jsonb_to_recordset(sent) as r (kind text, alert jsonb, created_at timestamptz)
  on conflict (error_code) do update set
    opened_at = case
      when excluded.opened_at is not null then coalesce(a.opened_at, excluded.opened_at)
    end,
    -- failures_resolved, which ends opened_at, is not news of a failure.
    alerted_at = case
      when a.opened_at is null or excluded.opened_at is not null then excluded.alerted_at
      else a.alerted_at
    end,
    reported = excluded.reported;

  update billing.missed_events m
  set is_reported = true
  from jsonb_to_recordset(sent) as r (kind text, alert jsonb)
  where r.kind = 'events_missed'
    and m.provider = r.alert ->> 'provider'
    and m.found_at <= (r.alert ->> 'found_until')::timestamptz;

  return jsonb_array_length(sent);
end;
$$;
