-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000013_billing_0040_open_alerts.sql

CREATE OR REPLACE FUNCTION public.open_alerts()
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  quiet_time constant interval := '1 hour';
  code record;
  withdrawn record;
  is_under_way boolean;
  new_failures bigint;
  alert_id uuid;
  written integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('public.open_alerts', 0)) then
    return 0;
  end if;

  for code in
    select
      coalesce(o.error_code, a.error_code) as error_code,
      coalesce(o.failures, 0) as failures,
      coalesce(o.later, 0) as later,
      o.newest,
      coalesce(a.reported, 0) as reported,
      a.opened_at,
      greatest(
        a.alerted_at, (select n.sent_at from public.notifications n where n.id = a.notification_id)
      ) as quiet_since
    from (
      select
        f.error_code,
        count(*) as failures,
        count(*) filter (where f.first_failed_at > t.reported_until) as later,
        max(f.first_failed_at) as newest
      from public.failed_events f
      left join public.failure_alerts t on t.error_code = f.error_code
      where f.resolved_at is null
      group by f.error_code
    ) as o
    full join public.failure_alerts a on a.error_code = o.error_code
  loop
    -- Several only if somebody wants to send alerts again that were given up.
    with gone as (
      update public.notifications w set status = 'withdrawn'
      where w.id = any (array(
        select d.id
        from public.notifications d
        where d.status = 'pending' and d.kind <> 'payment_failed'
          and d.kind = case when code.failures > 0 then 'failures_resolved' else 'failure_opened' end
          and d.alert ->> 'error_code' = code.error_code
          -- A worker sends it right now.
          and (d.lease_id is null or d.next_attempt_at <= now())
        for update skip locked
      ))
      returning w.attempts, w.created_at, (w.alert ->> 'opened_at')::timestamptz as opened_at
    )
    select
      max(g.attempts) as attempts, max(g.created_at) as created_at, min(g.opened_at) as opened_at
    into withdrawn
    from gone g;
    is_under_way := exists (
      select from public.notifications p
      where p.status = 'pending' and p.kind <> 'payment_failed'
        and p.alert ->> 'error_code' = code.error_code
    );

    if code.failures > 0 then
      -- The operator still takes them for open if the news was withdrawn.
      code.opened_at := coalesce(code.opened_at, withdrawn.opened_at);
      new_failures := greatest(code.later, code.failures - code.reported);
      alert_id := null;
      if not is_under_way and new_failures > 0
        and (code.quiet_since is null or code.quiet_since <= now() - quiet_time)
      then
        insert into public.notifications (kind, alert)
        select 'failure_opened', jsonb_strip_nulls(jsonb_build_object(
          'error_code', code.error_code,
          'error', case when code.error_code <> 'apply_failed' then left(e.error, 500) end,
          'open', code.failures,
          'new', new_failures,
          'first_failed_at', t.first_failed_at,
          'last_failed_at', t.last_failed_at,
          'provider', e.provider,
          'event_id', e.event_id,
          'event_type', left(e.type, 255)
        ))
        from (
          select x.error, x.provider, x.event_id, x.type
          from public.failed_events x
          where x.error_code = code.error_code and x.resolved_at is null
          order by x.first_failed_at desc
          limit 1
        ) as e, (
          select min(y.first_failed_at) as first_failed_at, max(y.last_failed_at) as last_failed_at
          from public.failed_events y
          where y.error_code = code.error_code and y.resolved_at is null
        ) as t
        returning id into alert_id;
      end if;
      -- Null as well if all were resolved meanwhile.
      if alert_id is null then
        update public.failure_alerts a set
          reported = least(a.reported, code.failures),
          opened_at = code.opened_at
        where a.error_code = code.error_code
          and (a.reported > code.failures or a.opened_at is distinct from code.opened_at);
      else
        insert into public.failure_alerts as a (
          error_code, notification_id, alerted_at, opened_at, reported, reported_until
        )
        values (
          code.error_code, alert_id, now(), coalesce(code.opened_at, now()), code.failures, code.newest
        )
        on conflict (error_code) do update set
          notification_id = excluded.notification_id,
          alerted_at = excluded.alerted_at,
          opened_at = excluded.opened_at,
          reported = excluded.reported,
          reported_until = excluded.reported_until;
        written := written + 1;
      end if;

    elsif code.opened_at is not null and not is_under_way then
      if withdrawn.attempts = 0 and withdrawn.created_at = code.opened_at then
        -- Nobody was told, so there is nothing to take back, and no hour to wait.
        update public.failure_alerts a set opened_at = null, alerted_at = null, reported = 0
        where a.error_code = code.error_code;
      else
        insert into public.notifications (kind, alert)
        select 'failures_resolved', jsonb_build_object(
          'error_code', code.error_code,
          'opened_at', code.opened_at,
          'resolved', count(*)
        )
        from public.failed_events r
        where r.resolved_at >= code.opened_at and r.error_code = code.error_code;
        update public.failure_alerts a set opened_at = null, reported = 0
        where a.error_code = code.error_code;
        written := written + 1;
      end if;
    end if;
  end loop;
  return written;
end;
$function$;

comment on function public.open_alerts() is 'Writes alerts about failures that opened, at most one per error code and hour, and about error codes without open failures any more. Returns how many it wrote. The worker calls it if ALERT_URL is set.';

revoke all on function public.open_alerts() from public;

grant EXECUTE on function public.open_alerts() to service_role;
