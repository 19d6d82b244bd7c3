/*
 * apply_updates_together: does to a record what apply_subscription_updated does,
 * and leaves everything that is not the simple case, untouched. What other
 * transactions have locked is in tests/faults/locked_rows.test.ts.
 */
begin;
select plan(33);
set local timezone = 'UTC';

create function pg_temp.event(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'customer.subscription.updated',
    'created', '2027-01-15T08:00:20.000Z', 'subscription_id', p_subscription_id,
    'account_id', 'acc_1', 'status', 'past_due', 'plan_id', 'plan_2',
    'current_period_end', '2027-03-01T00:00:00.000Z', 'provider_status', 'past_due',
    'customer_id', 'cus_2', 'quantity', 6, 'cancel_at', null,
    'trial_end', '2027-01-23T00:00:00.000Z', 'paused', 'void', 'livemode', true
  ) || p_fields
$$;

create function pg_temp.created(p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select pg_temp.event('tap_created_' || p_subscription_id, p_subscription_id, '{
    "type": "customer.subscription.created", "created": "2027-01-15T08:00:10.000Z",
    "status": "active", "plan_id": "plan_1", "provider_status": "active"
  }' || p_fields)
$$;

-- How often each outcome comes back, such as 'applied 5, failed BW001 1'.
create function pg_temp.apply(p_events jsonb)
returns text
language sql
as $$
  select string_agg(said || ' ' || times, ', ' order by said)
  from (
    select concat_ws(' ', a.outcome, a.error_code) as said, count(*) as times
    from public.apply_billing_events(p_events) as a
    group by said
  ) as outcomes
$$;

-- Which of the events are applied together, if all of them are claimed.
create function pg_temp.together(variadic p_events jsonb[])
returns text[]
language sql
as $$
  select array(
    select unnest(public.apply_updates_together(
      to_jsonb(p_events),
      array(select e ->> 'provider' || '/' || (e ->> 'event_id') from unnest(p_events) as e),
      '{}'
    ))
    order by 1
  )
$$;

set local role service_role;

-- The same as one by one: records of six kinds, each with each of 36 updates.

create temporary table cases as
select
  row_number() over () as n, kind.name as kind, status.name as status, previous.stated as previous,
  period.time as period
from unnest(array[
  'created', 'created past due', 'past due', 'past due long ago', 'deleted at once', 'deleted later'
]) as kind (name)
cross join unnest(array['active', 'past_due', 'unpaid']) as status (name)
cross join unnest(array[
  null,
  '{}',
  '{
    "status": "active", "plan_id": "plan_1", "customer_id": "cus_2", "quantity": 6,
    "cancel_at": null, "trial_end": 1800662400, "paused": "void", "livemode": true
  }',
  '{"status": "past_due", "plan_id": "plan_2", "quantity": null, "paused": "keep_as_draft"}',
  '{"current_period_end": 1803859200, "trial_end": null, "cancel_at": 1, "livemode": false}',
  '{"customer_id": "cus_1", "provider_status": "trialing", "unknown": 7}'
]::jsonb[]) as previous (stated)
cross join unnest(array['2027-03-01T00:00:00.000Z', '2027-04-01T00:00:00.000Z']) as period (time);

create function pg_temp.history(p_prefix text)
returns jsonb
language sql
as $$
  select jsonb_agg(event order by event ->> 'created')
  from cases c
  cross join lateral (
    select pg_temp.created(p_prefix || c.n, case
      when c.kind = 'created past due' then '{"provider_status": "past_due"}'::jsonb else '{}'
    end) as event
    union all
    select pg_temp.event('tap_due_' || p_prefix || c.n, p_prefix || c.n, '{
      "created": "2027-01-15T08:00:11.000Z", "previous": {"status": "active"}
    }')
    where c.kind like 'past due%'
    union all
    select pg_temp.event('tap_paid_' || p_prefix || c.n, p_prefix || c.n, '{
      "created": "2027-01-15T08:00:12.000Z", "previous": {"status": "past_due"},
      "status": "active", "provider_status": "active"
    }')
    where c.kind = 'past due long ago'
    union all
    select pg_temp.event('tap_deleted_' || p_prefix || c.n, p_prefix || c.n, jsonb_build_object(
      'type', 'customer.subscription.deleted',
      'created', case c.kind
        when 'deleted at once' then '2027-01-15T08:00:20.000Z' else '2027-01-15T08:00:30.000Z'
      end
    ))
    where c.kind like 'deleted%'
  ) as events
$$;

create function pg_temp.updates(p_prefix text)
returns setof jsonb
language sql
as $$
  select pg_temp.event('tap_update_' || p_prefix || c.n, p_prefix || c.n, jsonb_build_object(
    'status', c.status,
    'provider_status', case when c.status = 'active' then 'trialing' else c.status end,
    'previous', c.previous, 'current_period_end', c.period
  ))
  from cases c
  order by c.n
$$;

select is(
  pg_temp.apply(pg_temp.history('tap_one_')) || '; ' || pg_temp.apply(pg_temp.history('tap_all_')),
  'applied 396; applied 396',
  'two times 216 subscriptions with the same histories are recorded'
);
select is(
  (select count(*)::int from pg_temp.updates('tap_one_') as u where pg_temp.apply(jsonb_build_array(u)) = 'applied 1'),
  216,
  'their updates are applied, for the one half one by one'
);
select is(
  cardinality((select pg_temp.together(variadic array_agg(u)) from pg_temp.updates('tap_all_') as u)),
  216,
  'and for the other half together'
);
select results_eq(
  $$select c.n, to_jsonb(s) - 'id' - 'canceled_at'
    from cases c join public.subscriptions s on s.id = 'tap_all_' || c.n order by c.n$$,
  $$select c.n, to_jsonb(s) - 'id' - 'canceled_at'
    from cases c join public.subscriptions s on s.id = 'tap_one_' || c.n order by c.n$$,
  'the records of both halves are the same'
);
select cmp_ok(
  (select count(distinct to_jsonb(s) - 'id' - 'canceled_at') from public.subscriptions s where s.id like 'tap\_all\_%'),
  '>', 120::bigint, 'and most of them differ from case to case'
);

-- What is left, and nothing is changed.

select public.apply_billing_events(
  (select jsonb_agg(pg_temp.created('tap_' || i)) from generate_series(1, 6) as i)
);
create temporary table before as select * from public.subscriptions s where s.id like 'tap\__';

create function pg_temp.changed()
returns text
language sql
as $$
  select string_agg(s.id, ' ' order by s.id)
  from public.subscriptions s
  join before b on b.id = s.id
  where s is distinct from b
$$;

select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1', '{"created": "2027-01-15T08:00:10.000Z"}')),
  '{}', 'an update of the same second is left'
);
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1', '{"created": "2027-01-15T08:00:09.000Z"}')),
  '{}', 'an older update is left'
);
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1', '{"created": null}')),
  '{}', 'an update without a time is left'
);
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1', '{"provider": "b"}')),
  '{}', 'an update from the other provider is left'
);
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_missing')),
  '{}', 'an update without a record is left'
);
select is(
  pg_temp.together(
    pg_temp.event('tap_e1', 'tap_1', '{"type": "customer.subscription.deleted"}'),
    pg_temp.event('tap_e2', 'tap_2', '{"type": "customer.subscription.created"}'),
    pg_temp.event('tap_e3', 'tap_3', '{"type": "invoice.payment_failed"}')
  ),
  '{}', 'other types are left'
);
select is(
  pg_temp.together(
    pg_temp.event('tap_e1', 'tap_1'),
    pg_temp.event('tap_e2', 'tap_1', '{"created": "2027-01-15T08:00:21.000Z"}'),
    pg_temp.event('tap_e3', 'tap_2'),
    pg_temp.event('tap_e4', 'tap_2', '{"type": "customer.subscription.deleted"}'),
    pg_temp.event('tap_e5', 'tap_3'),
    pg_temp.event('tap_e5', 'tap_3')
  ),
  '{}', 'several events of a subscription are left, also copies of one'
);
select is(
  pg_temp.together(
    pg_temp.event('tap_e1', 'tap_1'),
    pg_temp.event('tap_e1', 'tap_2'),
    pg_temp.event('tap_e2', 'tap_3', '{"type": "customer.subscription.deleted"}'),
    pg_temp.event('tap_e2', 'tap_4')
  ),
  '{}', 'events with the same id are left, also if they are of different subscriptions'
);
select is(
  public.apply_updates_together(
    jsonb_build_array(pg_temp.event('tap_e1', 'tap_1'), pg_temp.event('tap_e2', 'tap_2')),
    '{a/tap_e3,b/tap_e1}', '{}'
  ),
  '{}', 'an event that is not claimed is left'
);
select is(
  public.apply_updates_together(
    jsonb_build_array(pg_temp.event('tap_e1', 'tap_1')), '{a/tap_e1}', '{tap_2,tap_1}'
  ),
  '{}', 'an event of a subscription that another call has is left'
);
select is(
  pg_temp.together(
    pg_temp.event('tap_e1', 'tap_1', '{"retry": {"event_id": "tap_e9", "lease_id": null}}')
  ),
  '{}', 'an event from a retry is left'
);
select public.record_failed_event('a', 'tap_e1', '{}', 'text', 'x', 'x');
select public.record_failed_event('b', 'tap_e2', '{}', 'text', 'x', 'x');
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1')), '{}', 'an event with an open failure is left'
);
select is(pg_temp.changed(), null, 'what is left is not changed');
select public.record_failed_event('a', 'tap_e4', '{}', 'text', 'x', 'x');
update public.failed_events set resolved_at = now(), resolution = 'applied' where event_id = 'tap_e4';
select is(
  pg_temp.together(
    pg_temp.event('tap_e1', 'tap_1'),
    pg_temp.event('tap_e2', 'tap_2', '{"retry": null}'),
    pg_temp.event('tap_e3', 'tap_3', '{"created": "2027-01-15T08:00:10.000Z"}'),
    pg_temp.event('tap_e4', 'tap_4')
  ),
  '{a/tap_e2,a/tap_e4}',
  'what is left keeps no other from being applied, nor does a failure that is resolved'
);
select is(pg_temp.changed(), 'tap_2 tap_4', 'and only these records are changed');

-- Refused rows, and triggers.

select is(
  pg_temp.together(
    pg_temp.event('tap_e5', 'tap_5'), pg_temp.event('tap_e6', 'tap_6', '{"plan_id": ""}')
  ),
  '{}',
  'if a row is refused, all are left'
);
select is(pg_temp.changed(), 'tap_2 tap_4', 'and none is changed');
select is(
  pg_temp.apply(jsonb_build_array(
    pg_temp.event('tap_e5', 'tap_5'),
    pg_temp.event('tap_e6', 'tap_6', '{"plan_id": ""}'),
    pg_temp.event('tap_e7', 'tap_3'),
    pg_temp.event('tap_e8', 'tap_missing', '{"customer_id": null}'),
    pg_temp.event('tap_e9', 'tap_4', '{"created": "2027-01-15T08:00:09.000Z"}')
  )),
  'applied 2, failed 23514 1, failed BW001 1, stale 1',
  'what is left is applied one by one, and fails by itself'
);
select is(
  (
    select string_agg(concat_ws(' ', a.place, a.outcome, a.error_code), ', ' order by a.place, a.outcome)
    from public.apply_billing_events(jsonb_build_array(
      pg_temp.event('tap_f1', 'tap_1', '{"created": "2027-01-15T08:00:30.000Z"}'),
      pg_temp.event('tap_f2', 'tap_missing', '{"customer_id": null}'),
      pg_temp.event('tap_f3', 'tap_2', '{"created": "2027-01-15T08:00:30.000Z"}'),
      pg_temp.event('tap_f3', 'tap_2', '{"created": "2027-01-15T08:00:30.000Z"}'),
      pg_temp.event('tap_f4', 'tap_3', '{"created": "2027-01-15T08:00:09.000Z"}'),
      pg_temp.event('tap_f5', 'tap_4', '{"created": "2027-01-15T08:00:30.000Z"}')
    )) as a
  ),
  '1 applied, 2 failed BW001, 3 applied, 4 duplicate, 5 stale, 6 applied',
  'each event is answered once, at its place, also if only some are applied together'
);
select is(
  (
    select string_agg(concat_ws(' ', a.place, a.outcome, a.error_code, a.error), ', ' order by a.place)
    from (
      select jsonb_agg(
        pg_temp.event('tap_g' || i, 'tap_' || i, '{"created": "2027-01-15T08:00:40.000Z"}') order by i
      ) as events
      from generate_series(1, 5) as i
    ) as simple
    cross join lateral public.apply_billing_events(simple.events) as a
  ),
  '1 applied, 2 applied, 3 applied, 4 applied, 5 applied',
  'each is answered, without an error, if all are applied together'
);

-- How few are applied together: without its function, the loop fails.

reset role;
alter function public.apply_subscription_updated rename to set_aside;
set local role service_role;
select is(
  (
    select pg_temp.apply(jsonb_agg(
      pg_temp.event('tap_h' || i, 'tap_' || i, '{"created": "2027-01-15T08:00:50.000Z"}')
    ))
    from generate_series(1, 3) as i
  ),
  'applied 3',
  'three updates are applied together'
);
select is(
  (
    select pg_temp.apply(jsonb_agg(
      pg_temp.event('tap_i' || i, 'tap_' || i, '{"created": "2027-01-15T08:01:00.000Z"}')
    ))
    from generate_series(1, 2) as i
  ),
  'failed 42883 2',
  'two are applied one by one'
);
reset role;
alter function public.set_aside rename to apply_subscription_updated;

-- By key, with plans that were made while the table was empty or had one row.

reset role;
truncate public.subscriptions, public.failed_events;
analyze public.subscriptions, public.failed_events;
set local role service_role;
select is(
  pg_temp.together(pg_temp.event('tap_e1', 'tap_1')), '{}', 'an empty table has nothing to apply'
);
select public.apply_billing_events(jsonb_build_array(pg_temp.created('tap_k0')));
select is(
  pg_temp.together(pg_temp.event('tap_k0', 'tap_k0')), '{a/tap_k0}', 'a table of one row has something to apply'
);
select public.apply_billing_events(
  (select jsonb_agg(pg_temp.created('tap_k' || i)) from generate_series(1, 1000) as i)
);
select count(public.record_failed_event('a', 'tap_open_' || i, '{}', 'text', 'x', 'x'))
from generate_series(1, 1000) as i;
create temporary table reads as
select t.relname, t.seq_tup_read + t.idx_tup_fetch as tuples
from pg_stat_xact_user_tables t
where t.relname in ('subscriptions', 'failed_events');
select is(
  cardinality((
    select pg_temp.together(variadic array_agg(pg_temp.event('tap_k' || i, 'tap_k' || i)))
    from generate_series(1, 50) as i
  )),
  50, 'many updates are applied together'
);
select is(
  (
    select string_agg(concat_ws(' ', r.relname, t.seq_tup_read + t.idx_tup_fetch - r.tuples), ', ' order by r.relname)
    from reads r join pg_stat_xact_user_tables t on t.relname = r.relname
  ),
  'failed_events 0, subscriptions 100',
  'no more rows are read for it than their own, twice, and no failure of another event'
);

-- Columns and triggers of the app.

reset role;
alter table public.subscriptions
  add column events text, add column claimed text, add column locked text,
  add column free text, add column applied text;
set local role service_role;
select is(
  pg_temp.together(pg_temp.event('tap_e10', 'tap_k59', '{"created": "2027-01-15T08:00:50.000Z"}')),
  '{a/tap_e10}', 'columns with the names of variables make no difference'
);

reset role;
create function pg_temp.nothing()
returns trigger
language plpgsql
as $$
begin
  return new;
end;
$$;
create trigger nothing before update on public.subscriptions
for each row execute function pg_temp.nothing();
set local role service_role;
select is(
  pg_temp.together(pg_temp.event('tap_e11', 'tap_k60', '{"created": "2027-01-15T08:00:50.000Z"}')),
  '{}', 'if subscriptions has a trigger, everything is left'
);

select * from finish();
rollback;
