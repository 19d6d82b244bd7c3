/*
 * apply_billing_events beside many open failures: no event reads those of others,
 * also with plans that were made while there were none.
 */
begin;
select plan(3);

create function pg_temp.event(p_event_id text, p_subscription_id text, p_type text, p_second integer)
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'customer.subscription.' || p_type,
    'created', to_timestamp(1800000000 + p_second), 'subscription_id', p_subscription_id,
    'account_id', 'acc_1', 'status', 'active', 'plan_id', 'plan_1',
    'current_period_end', '2027-03-01T00:00:00.000Z'
  )
$$;

-- How many rows of failed_events a call reads.
create function pg_temp.reads(p_events jsonb, p_outcome text)
returns integer
language plpgsql
as $$
declare
  before bigint;
  outcomes text[];
begin
  select t.seq_tup_read + t.idx_tup_fetch into before
  from pg_stat_xact_user_tables t where t.relname = 'failed_events';
  select array_agg(distinct a.outcome) into outcomes from public.apply_billing_events(p_events) as a;
  if outcomes <> array[p_outcome] then
    raise exception 'Outcomes: %.', outcomes;
  end if;
  return (
    select t.seq_tup_read + t.idx_tup_fetch - before
    from pg_stat_xact_user_tables t where t.relname = 'failed_events'
  );
end;
$$;

create function pg_temp.all_kinds(p_n integer)
returns table (kind text, reads integer)
language plpgsql
as $$
declare
  creation constant jsonb := jsonb_build_array(pg_temp.event('tap_c' || p_n, 'tap_' || p_n, 'created', 0));
begin
  return query values
    ('a creation', pg_temp.reads(creation, 'applied')),
    ('an update', pg_temp.reads(
      jsonb_build_array(pg_temp.event('tap_u' || p_n, 'tap_' || p_n, 'updated', 1)), 'applied'
    )),
    ('three updates', pg_temp.reads(
      (
        select jsonb_agg(pg_temp.event('tap_t' || p_n || '_' || i, 'tap_s' || i, 'updated', p_n))
        from generate_series(1, 3) as i
      ),
      'applied'
    ));
end;
$$;

truncate public.failed_events;
analyze public.failed_events;
set local role service_role;
select public.apply_billing_events(
  (select jsonb_agg(pg_temp.event('tap_s' || i, 'tap_s' || i, 'created', 0)) from generate_series(1, 3) as i)
);

-- After five times, a plan is kept.
select count(*) from generate_series(1, 8) as n cross join lateral pg_temp.all_kinds(n) as k;
select count(public.record_failed_event('a', 'tap_open_' || i, '{}', 'text', 'x', 'x'))
from generate_series(1, 500) as i;
select results_eq(
  'select k.kind, k.reads from pg_temp.all_kinds(9) as k',
  $$values ('a creation', 0), ('an update', 0), ('three updates', 0)$$,
  'an event that has not failed reads no failure'
);
select is(
  pg_temp.reads(jsonb_build_array(pg_temp.event('tap_open_7', 'tap_1', 'updated', 2)), 'applied') > 0,
  true, 'one that has failed reads its own'
);
select is(
  (select string_agg(f.event_id, ' ') from public.failed_events f where f.resolved_at is not null),
  'tap_open_7', 'and only that one is resolved'
);

select * from finish();
rollback;
