/*
 * The ordering rule, case by case: the end state is the one that the order of
 * occurrence gives, whatever the order of arrival.
 *
 * Every case is a subscription of its own. Events stand in the order in which
 * they arrive; times are seconds of a made-up clock. Each brings a period that
 * ends 1000 seconds after the event, or at 1000 where it has no time. The end
 * state reads: account, status, plan, period end, and whether canceled_at is set.
 */
begin;
select plan(93);

create function pg_temp.created(p_at integer, p_account text, p_plan text)
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'type', 'customer.subscription.created', 'created', to_timestamp(1800000000 + p_at),
    'account_id', p_account, 'plan_id', p_plan,
    'current_period_end', to_timestamp(1800001000 + coalesce(p_at, 0))
  )
$$;

create function pg_temp.updated(p_at integer, p_status text, p_plan text, p_previous jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'type', 'customer.subscription.updated', 'created', to_timestamp(1800000000 + p_at),
    'status', p_status, 'plan_id', p_plan, 'previous', p_previous,
    'current_period_end', to_timestamp(1800001000 + coalesce(p_at, 0))
  )
$$;

create function pg_temp.deleted(p_at integer)
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'type', 'customer.subscription.deleted', 'created', to_timestamp(1800000000 + p_at)
  )
$$;

-- Gives the events to the function, as events of one new subscription.
create function pg_temp.apply(p_subscription_id text, p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events((
    select jsonb_agg(
      e.event || jsonb_build_object(
        'provider', 'a', 'event_id', 'tap_' || gen_random_uuid(), 'subscription_id', p_subscription_id
      )
      order by e.place
    )
    from unnest(p_events) with ordinality as e (event, place)
  )) as a
$$;

create function pg_temp.state(p_subscription_id text)
returns text
language sql
as $$
  select concat_ws(
    ' ', s.account_id, s.status, s.plan_id,
    extract(epoch from s.current_period_end)::bigint - 1800000000,
    case when s.canceled_at is not null then 'canceled_at' end
  )
  from public.subscriptions s
  where s.id = p_subscription_id
$$;

-- One call an event: the outcomes and the end state.
create function pg_temp.in_turn(variadic p_events jsonb[])
returns text
language plpgsql
as $$
declare
  subscription_id text := 'tap_' || gen_random_uuid();
  outcomes text[];
  event jsonb;
begin
  foreach event in array p_events loop
    outcomes := outcomes || pg_temp.apply(subscription_id, array[event]);
  end loop;
  return array_to_string(outcomes, ', ') || ': ' || pg_temp.state(subscription_id);
end;
$$;

-- One call for all of them: the outcomes and the end state.
create function pg_temp.at_once(variadic p_events jsonb[])
returns text
language plpgsql
as $$
declare
  subscription_id text := 'tap_' || gen_random_uuid();
begin
  return pg_temp.apply(subscription_id, p_events) || ': ' || pg_temp.state(subscription_id);
end;
$$;

-- So many updates of the plan in one second, each of the one before.
create function pg_temp.many_plans(p_count integer, p_id text default 'tap_plans', p_told boolean default true)
returns text
language plpgsql
as $$
declare
  outcome text;
begin
  perform pg_temp.apply(p_id, array[pg_temp.created(10, 'acc_1', 'plan_0')]);
  for i in 1..p_count loop
    outcome := pg_temp.apply(p_id, array[pg_temp.updated(
      20, 'active', 'plan_' || i,
      case when p_told then jsonb_build_object('plan_id', 'plan_' || i - 1) else '{}' end
    )]);
  end loop;
  return outcome || ': ' || pg_temp.state(p_id);
end;
$$;

set local role service_role;

-- The newer event wins.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.updated(30, 'active', 'plan_3')
  ),
  'applied, applied, applied: acc_1 active plan_3 1030',
  'events in order are all applied'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(30, 'active', 'plan_3'),
    pg_temp.updated(20, 'past_due', 'plan_2')
  ),
  'applied, applied, stale: acc_1 active plan_3 1030',
  'an update older than the newest update is stale and changes nothing'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(20, 'acc_1', 'plan_1'),
    pg_temp.updated(19, 'past_due', 'plan_2')
  ),
  'applied, stale: acc_1 active plan_1 1020',
  'an update a second older than the creation is stale'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.deleted(30)
  ),
  'applied, applied, applied: acc_1 canceled plan_2 1020 canceled_at',
  'a deletion newer than the update sets the status'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.updated(21, 'active', 'plan_2')
  ),
  'applied, applied, applied: acc_1 active plan_2 1021 canceled_at',
  'an update a second newer than the deletion sets the status'
);

-- Within one second: created < updated < deleted.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(10, 'past_due', 'plan_2')
  ),
  'applied, applied: acc_1 past_due plan_2 1010',
  'an update of the creation''s second comes after it'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.created(20, 'acc_2', 'plan_3')
  ),
  'applied, applied, applied: acc_2 past_due plan_2 1020',
  'a creation of the update''s second comes before it, and brings the account alone'
);
select is(
  pg_temp.in_turn(pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.deleted(10)),
  'applied, applied: acc_1 canceled plan_1 1010 canceled_at',
  'a deletion of the creation''s second comes after it'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(10),
    pg_temp.created(10, 'acc_2', 'plan_2')
  ),
  'applied, applied, applied: acc_2 canceled plan_2 1010 canceled_at',
  'a creation of the deletion''s second comes before it and leaves the status alone'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.deleted(20)
  ),
  'applied, applied, applied: acc_1 canceled plan_2 1020 canceled_at',
  'a deletion of the update''s second comes after it'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.updated(20, 'past_due', 'plan_2')
  ),
  'applied, applied, applied: acc_1 canceled plan_2 1020 canceled_at',
  'an update of the deletion''s second comes before it: it brings plan and period, not the status'
);

-- Field by field: an update that is older than the deletion.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.updated(20, 'past_due', 'plan_2')
  ),
  'applied, applied, applied: acc_1 canceled plan_2 1020 canceled_at',
  'an update after a newer deletion brings plan and period, not the status'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.updated(25, 'unpaid', 'plan_3'),
    pg_temp.updated(20, 'past_due', 'plan_2')
  ),
  'applied, applied, applied, stale: acc_1 canceled plan_3 1025 canceled_at',
  'updates after a newer deletion are still ordered among themselves'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.updated(40, 'unpaid', 'plan_3')
  ),
  'applied, applied, applied, applied: acc_1 unpaid plan_3 1040 canceled_at',
  'an update newer than the deletion brings the status as well'
);

-- A deletion that is older than the newest change.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(30, 'past_due', 'plan_2'),
    pg_temp.deleted(20)
  ),
  'applied, applied, applied: acc_1 past_due plan_2 1030 canceled_at',
  'a deletion older than the newest update leaves the status, and its trace in canceled_at'
);
select is(
  pg_temp.in_turn(pg_temp.created(30, 'acc_1', 'plan_1'), pg_temp.deleted(29)),
  'applied, applied: acc_1 active plan_1 1030 canceled_at',
  'a deletion a second older than the newest creation leaves the status as well'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(30, 'past_due', 'plan_2'),
    pg_temp.deleted(20),
    pg_temp.updated(25, 'unpaid', 'plan_3')
  ),
  'applied, applied, applied, stale: acc_1 past_due plan_2 1030 canceled_at',
  'an update between such a deletion and the newest update is stale'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.deleted(20),
    pg_temp.updated(25, 'past_due', 'plan_2')
  ),
  'applied, applied, stale, applied: acc_1 canceled plan_2 1025 canceled_at',
  'a deletion older than another deletion is stale, and does not weaken it'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.deleted(30),
    pg_temp.updated(25, 'past_due', 'plan_2')
  ),
  'applied, applied, applied, applied: acc_1 canceled plan_2 1025 canceled_at',
  'the newest of two deletions is the one that counts'
);
select is(
  pg_temp.in_turn(pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.deleted(20), pg_temp.deleted(20)),
  'applied, applied, applied: acc_1 canceled plan_1 1010 canceled_at',
  'two deletions of one second are both applied'
);

-- Updates of one second: what they state, less what they replaced.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}')
  ),
  'applied, applied, applied: acc_1 unpaid plan_1 1020',
  'two updates of one second that arrive in order are both applied'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')
  ),
  'applied, applied, stale: acc_1 unpaid plan_1 1020',
  'the status that the held one replaced tells that the later arrival came first'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_2', '{"plan_id": "plan_1"}'),
    pg_temp.updated(20, 'active', 'plan_3', '{"plan_id": "plan_2"}')
  ),
  'applied, applied, applied: acc_1 active plan_3 1020',
  'two updates of the plan in one second that arrive in order are both applied'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_3', '{"plan_id": "plan_2"}'),
    pg_temp.updated(20, 'active', 'plan_2', '{"plan_id": "plan_1"}')
  ),
  'applied, applied, stale: acc_1 active plan_3 1020',
  'the plan that the held one replaced tells that the later arrival came first'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_1', '{"current_period_end": 1800001010}'),
    pg_temp.updated(20, 'active', 'plan_1', '{"current_period_end": 1800001020}')
      || '{"current_period_end": "2027-03-01T00:00:00.000Z"}'
  ),
  'applied, applied, applied: acc_1 active plan_1 3859200',
  'two updates of the period in one second that arrive in order are both applied'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_1', '{"current_period_end": 1800001020}')
      || '{"current_period_end": "2027-03-01T00:00:00.000Z"}',
    pg_temp.updated(20, 'active', 'plan_1', '{"current_period_end": 1800001010}')
  ),
  'applied, applied, stale: acc_1 active plan_1 3859200',
  'the period that the held one replaced tells that the later arrival came first'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}'),
    pg_temp.updated(20, 'active', 'plan_2', '{"plan_id": "plan_1"}')
  ),
  'applied, applied, stale: acc_1 past_due plan_2 1020',
  'two updates of different fields are put in order by the one that replaced the other''s value'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_2', '{"plan_id": "plan_1"}'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}')
  ),
  'applied, applied, applied: acc_1 past_due plan_2 1020',
  'two updates of different fields that arrive in order are both applied'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_1')
  ),
  'applied, applied, stale: acc_1 unpaid plan_1 1020',
  'it is enough that one of the two tells, if the held one does'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}')
  ),
  'applied, applied, applied: acc_1 unpaid plan_1 1020',
  'it is enough that one of the two tells, if the later arrival does'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_3', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_9', '{"status": "active"}')
  ),
  'applied, applied, applied: acc_1 unpaid plan_9 1020',
  'each field is decided by itself: what is known of the status says nothing of the plan'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.updated(20, 'unpaid', 'plan_2', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}')
  ),
  'applied, applied, applied, stale: acc_1 canceled plan_2 1020 canceled_at',
  'a deletion of the same second does not disturb the order of two updates'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(21, 'past_due', 'plan_2', '{"status": "active"}')
  ),
  'applied, applied, applied: acc_1 past_due plan_2 1021',
  'what was replaced counts within one second only'
);

-- More of them, some of which change nothing that is kept, or send more than they changed.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(10, 'active', 'plan_1', '{"status": "incomplete"}'),
    pg_temp.updated(10, 'active', 'plan_1'),
    pg_temp.updated(10, 'incomplete', 'plan_1')
  ),
  'applied, applied, applied, stale: acc_1 active plan_1 1010',
  'a first payment that arrives as created, 2, 3, 1 ends active'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(10, 'incomplete', 'plan_1'),
    pg_temp.updated(10, 'active', 'plan_1'),
    pg_temp.updated(10, 'active', 'plan_1', '{"status": "incomplete"}')
  ),
  'applied, applied, applied, applied: acc_1 active plan_1 1010',
  'an update that changes nothing, and one that does, are applied where they state what the second ends with'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}'),
    pg_temp.updated(20, 'active', 'plan_1', '{"plan_id": "plan_1", "current_period_end": 1800001020}')
  ),
  'applied, applied, stale: acc_1 past_due plan_1 1020',
  'seats up, then past_due, backwards: what is unchanged in an old item that is sent whole was not replaced'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_1', '{"plan_id": "plan_1", "current_period_end": 1800001020}'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')
  ),
  'applied, applied, applied: acc_1 past_due plan_1 1020',
  'seats up, then past_due, in order'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_2', '{"status": "past_due"}'),
    pg_temp.updated(20, 'active', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"plan_id": "plan_1"}')
  ),
  'applied, applied, applied, applied, applied: acc_1 unpaid plan_2 1020',
  'four updates of one second: what one of them replaced is remembered beyond the next'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(20, 'active', 'plan_1', '{"status": "trialing"}'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')
  ),
  'applied, applied, applied, applied: acc_1 unpaid plan_1 1020',
  'a value that was stated and not replaced comes back when the ones after it are'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(null, 'trialing', 'plan_1', '{"status": "unpaid"}'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')
  ),
  'applied, applied, applied, applied: acc_1 trialing plan_1 1020',
  'an update without a time is applied in between, and forgets nothing'
);

-- As version 0.9.0 kept what the first update of a second replaced.
select pg_temp.apply('tap_former', array[
  pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}')
]);
update public.subscriptions set changed_in_second = '{"status": {"replaced": ["past_due"]}}'
where id = 'tap_former';
select is(
  pg_temp.apply('tap_former', array[pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')])
    || ': ' || pg_temp.state('tap_former'),
  'stale: acc_1 unpaid plan_1 1020',
  'what version 0.9.0 kept about a second is still read'
);
select is(
  pg_temp.apply('tap_former', array[pg_temp.updated(null, 'trialing', 'plan_1', '{"status": "unpaid"}')])
    || ', ' || pg_temp.apply('tap_former', array[pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')])
    || ': ' || pg_temp.state('tap_former'),
  'applied, applied: acc_1 trialing plan_1 1020',
  'and kept by an update without a time'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.deleted(null),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}')
  ),
  'applied, applied, applied, stale: acc_1 canceled plan_1 1020 canceled_at',
  'a stale update does not bring back the status that a deletion without a time has taken away'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_2', '{"status": "past_due", "plan_id": "plan_1"}'),
    pg_temp.deleted(20),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}'),
    pg_temp.updated(21, 'active', 'plan_2', '{"status": "unpaid"}')
  ),
  'applied, applied, applied, stale, applied: acc_1 active plan_2 1021 canceled_at',
  'a deletion keeps the status of its second, and no longer'
);
select is(
  pg_temp.many_plans(30), 'applied: acc_1 active plan_30 1020',
  'thirty plans in one second, in order, end with the last one'
);
select results_eq(
  $$
    select jsonb_array_length(s.changed_in_second #> '{plan_id,replaced}')
    from public.subscriptions s where s.id = 'tap_plans'
  $$,
  'values (20)',
  'twenty values are remembered of a field'
);
select is(
  pg_temp.apply('tap_plans', array[pg_temp.updated(20, 'active', 'plan_29', '{"plan_id": "plan_28"}')]),
  'stale',
  'of more than twenty, the latest'
);
select is(
  pg_temp.apply('tap_plans', array[pg_temp.updated(20, 'active', 'plan_9')]) || ': ' || pg_temp.state('tap_plans'),
  'applied: acc_1 active plan_9 1020',
  'beyond twenty, the later arrival wins'
);
select is(
  pg_temp.many_plans(30, 'tap_untold', false), 'applied: acc_1 active plan_30 1020',
  'of thirty that do not tell the last one wins'
);
select results_eq(
  $$
    select jsonb_array_length(s.changed_in_second #> '{plan_id,stated}')
    from public.subscriptions s where s.id = 'tap_untold'
  $$,
  'values (20)',
  'of stated values, too, twenty are remembered'
);
select is(
  pg_temp.apply('tap_plans', array[pg_temp.updated(21, 'active', 'plan_1')]), 'applied',
  'an update of the next second follows'
);
select is(
  (select changed_in_second from public.subscriptions where id = 'tap_plans'), '{}',
  'it forgets them'
);

-- Where what they replaced tells nothing, or a value changed back, the later arrival wins.

select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.updated(20, 'unpaid', 'plan_3')
  ),
  'applied, applied, applied: acc_1 unpaid plan_3 1020',
  'of two updates of one second that do not tell the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_3'),
    pg_temp.updated(20, 'past_due', 'plan_2')
  ),
  'applied, applied, applied: acc_1 past_due plan_2 1020',
  'of two updates of one second that do not tell the later arrival wins, the other way round'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2') - 'previous',
    pg_temp.updated(20, 'unpaid', 'plan_3') - 'previous'
  ),
  'applied, applied, applied: acc_1 unpaid plan_3 1020',
  'an update that leaves out what it replaced is one that does not tell'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "trialing"}'),
    pg_temp.updated(20, 'unpaid', 'plan_3', '{"status": "incomplete"}')
  ),
  'applied, applied, applied: acc_1 unpaid plan_3 1020',
  'of two updates of one second that replaced something else the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}'),
    pg_temp.updated(20, 'active', 'plan_3', '{"status": "past_due"}')
  ),
  'applied, applied, applied: acc_1 active plan_3 1020',
  'of a change and its reversal within one second the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_3', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}')
  ),
  'applied, applied, applied: acc_1 past_due plan_2 1020',
  'of a change and its reversal within one second the later arrival wins, the other way round'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_2', '{"plan_id": "plan_1"}'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"plan_id": "plan_2"}')
  ),
  'applied, applied, applied: acc_1 unpaid plan_1 1020',
  'of a change of plan and its reversal within one second the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'active', 'plan_1', '{"current_period_end": 1800001010}'),
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"current_period_end": 1800001020}')
      || jsonb_build_object('current_period_end', to_timestamp(1800001010))
  ),
  'applied, applied, applied: acc_1 unpaid plan_1 1010',
  'of a change of period and its reversal within one second the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}'),
    pg_temp.updated(20, 'active', 'plan_3', '{"status": "past_due"}')
  ),
  'applied, applied, applied, applied: acc_1 canceled plan_3 1020 canceled_at',
  'a deletion of their second keeps the status, and the later arrival brings the plan'
);

-- More than one creation.

select is(
  pg_temp.in_turn(pg_temp.created(20, 'acc_2', 'plan_2'), pg_temp.created(10, 'acc_1', 'plan_1')),
  'applied, stale: acc_2 active plan_2 1020',
  'a creation older than the one that made the record is stale'
);
select is(
  pg_temp.in_turn(pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.created(20, 'acc_2', 'plan_2')),
  'applied, applied: acc_2 active plan_2 1020',
  'a newer creation takes the record over'
);
select is(
  pg_temp.in_turn(pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.created(10, 'acc_2', 'plan_2')),
  'applied, applied: acc_2 active plan_2 1010',
  'of two creations of one second the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(30, 'past_due', 'plan_3'),
    pg_temp.created(20, 'acc_2', 'plan_2')
  ),
  'applied, applied, applied: acc_2 past_due plan_3 1030',
  'a creation older than the newest update brings the account alone'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(20, 'acc_2', 'plan_2'),
    pg_temp.updated(30, 'past_due', 'plan_3'),
    pg_temp.created(10, 'acc_1', 'plan_1')
  ),
  'applied, applied, stale: acc_2 past_due plan_3 1030',
  'a creation older than all there is is stale'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.created(30, 'acc_3', 'plan_3')
  ),
  'applied, applied, applied: acc_3 active plan_3 1030',
  'a creation newer than the update brings everything'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "trialing"}'),
    pg_temp.created(30, 'acc_3', 'plan_3'),
    pg_temp.created(30, 'acc_4', 'plan_4'),
    pg_temp.updated(30, 'trialing', 'plan_5')
  ),
  'applied, applied, applied, applied, applied: acc_4 trialing plan_5 1030',
  'an update that a newer creation has replaced counts no more in the creation''s second'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.created(30, 'acc_3', 'plan_3'),
    pg_temp.created(30, 'acc_4', 'plan_4')
  ),
  'applied, applied, applied, applied: acc_4 active plan_4 1030',
  'of two creations of one second after an update the later arrival wins'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.created(30, 'acc_3', 'plan_3'),
    pg_temp.created(20, 'acc_2', 'plan_2'),
    pg_temp.updated(25, 'past_due', 'plan_4')
  ),
  'applied, applied, stale, stale: acc_3 active plan_3 1030',
  'after a newer creation, what lies between the two is stale'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(40, 'past_due', 'plan_4'),
    pg_temp.created(30, 'acc_3', 'plan_3'),
    pg_temp.created(20, 'acc_2', 'plan_2'),
    pg_temp.updated(35, 'unpaid', 'plan_5')
  ),
  'applied, applied, applied, stale, stale: acc_3 past_due plan_4 1040',
  'a creation that brings the account alone is the newest creation, but not the newest change'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.created(20, 'acc_2', 'plan_3'),
    pg_temp.created(20, 'acc_3', 'plan_4')
  ),
  'applied, applied, applied, applied: acc_3 past_due plan_2 1020',
  'two creations of the update''s second both come before it'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'unpaid', 'plan_2', '{"status": "past_due"}'),
    pg_temp.created(15, 'acc_2', 'plan_9'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}')
  ),
  'applied, applied, applied, stale: acc_2 unpaid plan_2 1020',
  'an older creation does not disturb the order of two updates of one second'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2', '{"status": "active"}'),
    pg_temp.created(15, 'acc_2', 'plan_9'),
    pg_temp.updated(20, 'active', 'plan_3', '{"status": "past_due"}')
  ),
  'applied, applied, applied, applied: acc_2 active plan_3 1020',
  'an older creation leaves the status alone that an update reported'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(20),
    pg_temp.created(30, 'acc_3', 'plan_3')
  ),
  'applied, applied, applied: acc_3 active plan_3 1030 canceled_at',
  'a creation newer than the deletion brings the record back'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.created(20, 'acc_2', 'plan_2')
  ),
  'applied, applied, applied: acc_2 canceled plan_2 1020 canceled_at',
  'a creation older than the deletion leaves the status alone'
);

-- canceled_at: the time of handling of the deletion, in the order of arrival.

select is(
  pg_temp.apply('tap_c', array[pg_temp.created(10, 'acc_1', 'plan_1'), pg_temp.deleted(30)]),
  'applied, applied',
  'a subscription is created and deleted'
);
select is(
  (select canceled_at from public.subscriptions where id = 'tap_c'), now(),
  'canceled_at is the time at which the deletion was handled, not that of the event'
);
update public.subscriptions set canceled_at = '2027-01-01T00:00:00Z' where id = 'tap_c';
select is(
  pg_temp.apply('tap_c', array[
    pg_temp.deleted(20), pg_temp.updated(25, 'active', 'plan_2'), pg_temp.updated(40, 'active', 'plan_2'),
    pg_temp.created(50, 'acc_1', 'plan_2')
  ]),
  'stale, applied, applied, applied',
  'a stale deletion, updates and a creation follow'
);
select is(
  (select canceled_at from public.subscriptions where id = 'tap_c'), '2027-01-01T00:00:00Z'::timestamptz,
  'none of these changes canceled_at'
);
select is(
  pg_temp.apply('tap_c', array[pg_temp.deleted(60)]) , 'applied',
  'a newer deletion follows'
);
select is(
  (select canceled_at from public.subscriptions where id = 'tap_c'), now(),
  'a newer deletion sets canceled_at anew'
);

-- Without a time, the specification's table applies as it stands.

select is(
  pg_temp.in_turn(
    pg_temp.created(null, 'acc_1', 'plan_1'),
    pg_temp.updated(null, 'past_due', 'plan_2'),
    pg_temp.deleted(null),
    pg_temp.updated(null, 'active', 'plan_3')
  ),
  'applied, applied, applied, applied: acc_1 active plan_3 1000 canceled_at',
  'events without a time are all applied in the order of arrival'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(null, 'acc_1', 'plan_1'),
    pg_temp.updated(null, 'past_due', 'plan_2'),
    pg_temp.deleted(null)
  ),
  'applied, applied, applied: acc_1 canceled plan_2 1000 canceled_at',
  'a deletion without a time sets canceled and canceled_at'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.created(null, 'acc_2', 'plan_2')
  ),
  'applied, stale: acc_1 active plan_1 1010',
  'a creation without a time that finds a record changes nothing'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.deleted(30),
    pg_temp.updated(null, 'active', 'plan_3')
  ),
  'applied, applied, applied, applied: acc_1 active plan_3 1000 canceled_at',
  'an update without a time is applied whatever the record holds'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.updated(20, 'past_due', 'plan_2'),
    pg_temp.updated(null, 'active', 'plan_3'),
    pg_temp.updated(15, 'unpaid', 'plan_4'),
    pg_temp.updated(25, 'trialing', 'plan_5')
  ),
  'applied, applied, applied, stale, applied: acc_1 trialing plan_5 1025',
  'an update without a time does not change how dated ones are ordered among themselves'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(10, 'acc_1', 'plan_1'),
    pg_temp.deleted(30),
    pg_temp.deleted(null),
    pg_temp.deleted(20),
    pg_temp.updated(25, 'past_due', 'plan_2')
  ),
  'applied, applied, applied, stale, applied: acc_1 canceled plan_2 1025 canceled_at',
  'a deletion without a time does not change how dated events are ordered among themselves'
);
select is(
  pg_temp.in_turn(
    pg_temp.created(null, 'acc_1', 'plan_1'),
    pg_temp.updated(null, 'past_due', 'plan_2'),
    pg_temp.created(10, 'acc_2', 'plan_3')
  ),
  'applied, applied, applied: acc_2 active plan_3 1010',
  'a creation with a time outranks a record that was made without any'
);

-- Events of one array.

select is(
  pg_temp.at_once(
    pg_temp.deleted(20),
    pg_temp.updated(20, 'past_due', 'plan_3'),
    pg_temp.updated(15, 'unpaid', 'plan_2'),
    pg_temp.created(10, 'acc_1', 'plan_1')
  ),
  'applied, applied, applied, applied: acc_1 canceled plan_3 1020 canceled_at',
  'an array is applied in the order of time, so that nothing in it is stale'
);
select is(
  pg_temp.at_once(
    pg_temp.deleted(10),
    pg_temp.updated(10, 'past_due', 'plan_2'),
    '{"type": "invoice.payment_failed", "created": "2027-01-15T08:00:10Z"}',
    pg_temp.created(10, 'acc_1', 'plan_1')
  ),
  'applied, applied, applied, applied: acc_1 canceled plan_2 1010 canceled_at',
  'within one second of an array the creation is applied first'
);
select is(
  pg_temp.at_once(
    pg_temp.updated(20, 'unpaid', 'plan_1', '{"status": "past_due"}'),
    pg_temp.updated(20, 'past_due', 'plan_1', '{"status": "active"}'),
    pg_temp.created(10, 'acc_1', 'plan_1')
  ),
  'applied, stale, applied: acc_1 unpaid plan_1 1020',
  'two updates of one second in an array are ordered by what they replaced'
);
select is(
  pg_temp.at_once(
    pg_temp.updated(null, 'past_due', 'plan_2'),
    pg_temp.updated(null, 'unpaid', 'plan_3'),
    pg_temp.created(10, 'acc_1', 'plan_1')
  ),
  'applied, applied, applied: acc_1 unpaid plan_3 1000',
  'events of an array without a time are applied after the others, in the order of the array'
);

select * from finish();
rollback;
