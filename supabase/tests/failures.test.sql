/*
 * apply_billing_events: an event that fails leaves no trace of its own and
 * does no harm to others, and succeeds on a later delivery.
 */
begin;
select plan(54);

create function pg_temp.apply(variadic p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events(to_jsonb(p_events)) as a
$$;

create function pg_temp.event(p_event_id text, p_type text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', p_type, 'subscription_id', p_subscription_id,
    'account_id', 'acc_1', 'status', 'past_due', 'plan_id', 'plan_1',
    'current_period_end', '2027-02-01T00:00:00Z'
  ) || p_fields
$$;

-- All that the events of a prefix have left behind.
create function pg_temp.traces(p_prefix text)
returns setof text
language sql
as $$
  select 'processed_events ' || event_id from public.processed_events where starts_with(event_id, p_prefix)
  union all
  select 'failed_events ' || event_id from public.failed_events where starts_with(event_id, p_prefix)
  union all
  select 'notifications ' || event_id from public.notifications where starts_with(event_id, p_prefix)
  union all
  select 'subscriptions ' || id from public.subscriptions where starts_with(id, p_prefix)
$$;

-- Makes every write to a subscription of plan 'plan_trap' fail, after the fact.
create function pg_temp.trap()
returns trigger
language plpgsql
as $$
begin
  raise exception 'The trap went off.' using errcode = current_setting('tap.sqlstate');
end;
$$;
create trigger trap after insert or update on public.subscriptions
for each row when (new.plan_id = 'plan_trap') execute function pg_temp.trap();

-- Calls with an event that fails so, between two that are good. The SQLSTATE
-- that the call itself raised, or else its answer.
create function pg_temp.spring_trap(p_sqlstate text)
returns text
language plpgsql
as $$
begin
  perform set_config('tap.sqlstate', p_sqlstate, true);
  return pg_temp.apply(
    pg_temp.event('tap_t1_' || p_sqlstate, 'invoice.payment_failed', 'tap_sub'),
    pg_temp.event('tap_t2_' || p_sqlstate, 'customer.subscription.updated', 'tap_sub', '{"plan_id": "plan_trap"}'),
    pg_temp.event('tap_t3_' || p_sqlstate, 'customer.subscription.created', 'tap_t4_' || p_sqlstate)
  );
exception when query_canceled or others then
  return 'raised ' || sqlstate;
end;
$$;

set local role service_role;

-- BW001: no such subscription.

select is(
  pg_temp.apply(pg_temp.event('tap_1', t.type, 'tap_1_missing')), 'failed BW001',
  format('%s of an unknown subscription fails with BW001', t.type)
)
from unnest(array[
  'customer.subscription.updated', 'customer.subscription.deleted', 'invoice.payment_failed'
]) as t (type);
select is(
  (select error from public.apply_billing_events(jsonb_build_array(
    pg_temp.event('tap_1', 'customer.subscription.updated', 'tap_1_missing')
  ))),
  'No subscription tap_1_missing is recorded.',
  'the message of BW001 names the subscription'
);
select is_empty(
  $$select pg_temp.traces('tap_1')$$,
  'events of an unknown subscription leave no record, no claim and no notification'
);

-- BW002: another provider's subscription.

select is(
  pg_temp.apply(
    pg_temp.event('tap_2', 'customer.subscription.created', 'tap_sub'),
    pg_temp.event('tap_3', 'customer.subscription.created', 'tap_sub_b', '{"provider": "b"}')
  ),
  'applied, applied',
  'each provider creates a subscription'
);
create temporary table before on commit drop as
  select to_jsonb(s) as record from public.subscriptions s where s.id = 'tap_sub';
select is(
  pg_temp.apply(pg_temp.event(
    'tap_4', t.type, 'tap_sub',
    '{"provider": "b", "created": "2027-01-15T08:00:10Z", "account_id": "acc_b", "plan_id": "plan_b"}'
  )),
  'failed BW002',
  format('%s of one provider for the other''s subscription fails with BW002', t.type)
)
from unnest(array[
  'customer.subscription.created', 'customer.subscription.updated',
  'customer.subscription.deleted', 'invoice.payment_failed'
]) as t (type);
select is(
  (select error from public.apply_billing_events(jsonb_build_array(
    pg_temp.event('tap_4', 'customer.subscription.updated', 'tap_sub', '{"provider": "b"}')
  ))),
  'Subscription tap_sub belongs to provider a, not b.',
  'the message of BW002 names both providers'
);
select results_eq(
  $$select to_jsonb(s) from public.subscriptions s where s.id = 'tap_sub'$$,
  'select record from before',
  'events of the wrong provider leave the record alone'
);
select is_empty(
  $$select pg_temp.traces('tap_4')$$,
  'events of the wrong provider leave no claim and no notification'
);

-- A bad event among good ones.

select is(
  pg_temp.apply(
    pg_temp.event('tap_5', 'customer.subscription.created', 'tap_5_sub'),
    pg_temp.event('tap_6', 'customer.subscription.updated', 'tap_6_sub'),
    pg_temp.event('tap_7', 'invoice.payment_failed', 'tap_sub'),
    pg_temp.event('tap_8', 'customer.subscription.updated', 'tap_sub_b', '{"provider": "b"}')
  ),
  'applied, failed BW001, applied, applied',
  'one event that fails leaves the others of its array alone'
);
select set_eq(
  $$select pg_temp.traces(e.id)
    from unnest(array['tap_5', 'tap_6', 'tap_7', 'tap_8']) as e (id)$$,
  $$values
    ('processed_events tap_5'), ('subscriptions tap_5_sub'),
    ('processed_events tap_7'), ('notifications tap_7'),
    ('processed_events tap_8')$$,
  'the others have their effect and their claim, and the claim of the bad one is taken back'
);
select is(
  pg_temp.apply(pg_temp.event('tap_6', 'customer.subscription.updated', 'tap_6_sub')),
  'failed BW001',
  'in a second delivery it fails again, while its subscription is missing'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_6', 'customer.subscription.updated', 'tap_6_sub'),
    pg_temp.event('tap_9', 'customer.subscription.created', 'tap_6_sub')
  ),
  'applied, applied',
  'an event that failed twice is applied by a later retry, after the creation behind it in the array'
);
select is(
  (select status from public.subscriptions where id = 'tap_6_sub'), 'past_due',
  'the retry has the effect of the event'
);
select is(
  pg_temp.apply(pg_temp.event('tap_6', 'customer.subscription.updated', 'tap_6_sub')), 'duplicate',
  'after the retry the event is a duplicate'
);
select is(
  pg_temp.apply(
    pg_temp.event(
      'tap_10', 'customer.subscription.updated', 'tap_sub', '{"plan_id": null, "status": "unpaid"}'
    ),
    pg_temp.event(
      'tap_11', 'customer.subscription.updated', 'tap_sub',
      jsonb_build_object('plan_id', repeat('x', 256), 'status', 'unpaid')
    ),
    pg_temp.event('tap_12', 'customer.subscription.updated', 'tap_sub', '{"plan_id": "plan_12"}')
  ),
  'failed 23502, failed 23514, applied',
  'what a table refuses fails with the SQLSTATE, and the next event of the subscription is applied'
);
select results_eq(
  $$select status, plan_id from public.subscriptions where id = 'tap_sub'$$,
  $$values ('past_due', 'plan_12')$$,
  'an event that a table refused leaves nothing of itself in the record'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_13', 'customer.subscription.created', 'tap_13_sub', '{"account_id": ""}'),
    pg_temp.event('tap_13', 'customer.subscription.created', 'tap_13_sub', '{"provider": "b"}')
  ),
  'failed 23514, applied',
  'the claim that is taken back is that of the provider whose event failed'
);
select is(
  (select string_agg(provider, ', ') from public.processed_events where event_id = 'tap_13'), 'b',
  'the other provider''s claim under the same id stays'
);

-- Failures of the event, and failures of the whole call.

select is(
  pg_temp.spring_trap(s.code), 'applied, failed ' || s.code || ', applied',
  format('SQLSTATE %s is a failure of the one event: %s', s.code, s.meaning)
)
from (
  values
    ('22003', 'a number out of range'),
    ('23505', 'a key that is there already'),
    ('42501', 'a missing grant'),
    ('54000', 'a limit of the server'),
    ('55P03', 'a subscription that somebody else has locked'),
    ('P0001', 'an exception of somebody''s trigger'),
    ('XX000', 'an internal error')
) as s (code, meaning);
select is_empty(
  $$select pg_temp.traces('tap_t2_')$$,
  'an event that failed so has no claim'
);
select is(
  (select plan_id from public.subscriptions where id = 'tap_sub'), 'plan_12',
  'what it had written already is undone'
);
select is(
  pg_temp.spring_trap(s.code), 'raised ' || s.code,
  format('SQLSTATE %s is a failure of the whole call: %s', s.code, s.meaning)
)
from (
  values
    ('08006', 'the connection is lost'),
    ('40001', 'a serialization failure'),
    ('40P01', 'a deadlock'),
    ('53200', 'no more memory'),
    ('53300', 'too many connections'),
    ('57014', 'a statement that took too long'),
    ('57P01', 'a server that shuts down'),
    ('58030', 'a failing disk')
) as s (code, meaning);
select is_empty(
  $$select t from pg_temp.traces('tap_t') as t
    where t ~ '(08006|40001|40P01|53200|53300|57014|57P01|58030)$'$$,
  'a call that fails as a whole leaves nothing of the good events either'
);

-- What was filed as failed is resolved.

select is(
  public.record_failed_event(f.provider, f.event_id, '{}', 'text', 'database_unavailable', 'Timed out'),
  true,
  format('%s of provider %s is filed', f.event_id, f.provider)
)
from (
  values ('a', 'tap_20'), ('b', 'tap_20'), ('a', 'tap_21'), ('a', 'tap_22')
) as f (provider, event_id);
select is(
  pg_temp.apply(
    pg_temp.event('tap_20', 'customer.subscription.deleted', 'tap_sub'),
    pg_temp.event('tap_21', 'customer.subscription.deleted', 'tap_21_missing')
  ),
  'applied, failed BW001',
  'of two events that were filed one is applied and one fails again'
);
select set_eq(
  $$select provider, event_id from public.failed_events
    where event_id in ('tap_20', 'tap_21', 'tap_22') and resolved_at = now()$$,
  $$values ('a', 'tap_20')$$,
  'the event that is applied is resolved at that time, and no other row'
);
update public.failed_events set resolved_at = '2027-01-01T00:00:00Z'
where provider = 'a' and event_id = 'tap_20';
select is(
  pg_temp.apply(pg_temp.event('tap_20', 'customer.subscription.deleted', 'tap_sub')), 'duplicate',
  'the resolved event comes again and is a duplicate'
);
select is(
  (select resolved_at from public.failed_events where provider = 'a' and event_id = 'tap_20'),
  '2027-01-01T00:00:00Z'::timestamptz,
  'a row that is resolved keeps its time'
);
update public.failed_events set resolved_at = null, resolution = null
where provider = 'a' and event_id = 'tap_20';
select is(
  pg_temp.apply(pg_temp.event('tap_20', 'customer.subscription.deleted', 'tap_sub')), 'duplicate',
  'the event comes again while its row is open, although it was applied'
);
select is(
  (select resolved_at from public.failed_events where provider = 'a' and event_id = 'tap_20'), now(),
  'a duplicate resolves the open row as well'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_23', 'customer.subscription.updated', 'tap_sub', '{"created": "2027-01-15T08:00:20Z"}')
  ),
  'applied',
  'an update is applied that is newer than one that was filed'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_22', 'customer.subscription.updated', 'tap_sub', '{"created": "2027-01-15T08:00:10Z"}'),
    pg_temp.event('tap_21', 'customer.subscription.created', 'tap_21_sub')
  ),
  'stale, applied',
  'of the other two that were filed one has become stale and one is applied'
);
select set_eq(
  $$select provider, event_id from public.failed_events
    where event_id in ('tap_20', 'tap_21', 'tap_22') and resolved_at is null$$,
  $$values ('b', 'tap_20')$$,
  'both are resolved; what stays open is the other provider''s event under the same id'
);

select * from finish();
rollback;
