/*
 * The views of triage: what they show, in which order, and to whom.
 */
begin;
select plan(24);
set local timezone = 'UTC';

-- What other tests have left would be counted.
delete from public.failed_events;
delete from public.notifications;
delete from public.processed_events;

-- Columns.

select columns_are(
  'public', 'open_failures',
  array[
    'alike', 'error_code', 'type', 'event_id', 'provider', 'subscription_id', 'account_id', 'error', 'attempts',
    'first_failed_at', 'last_failed_at', 'retry_requested', 'repaired'
  ],
  'open_failures has the columns that the runbook speaks of'
);
select columns_are(
  'public', 'billing_events_per_hour', array['hour', 'type', 'outcome', 'events'],
  'so has billing_events_per_hour'
);
select columns_are(
  'public', 'billing_health',
  array[
    'last_event_at', 'open_failures', 'oldest_open_failure', 'retries_requested', 'notifications_pending',
    'oldest_pending_notification', 'notifications_given_up', 'ledger_rows_estimate'
  ],
  'so has billing_health'
);

-- Nothing there.

select is_empty('select * from public.open_failures', 'where nothing is open, open_failures is empty');
select is_empty('select * from public.billing_events_per_hour', 'where nothing came, so is billing_events_per_hour');
select results_eq(
  $$select last_event_at, open_failures, oldest_open_failure, retries_requested, notifications_pending,
      oldest_pending_notification, notifications_given_up
    from public.billing_health$$,
  $$values (null::timestamptz, 0::bigint, null::timestamptz, 0::bigint, 0::bigint, null::timestamptz, 0::bigint)$$,
  'and billing_health is one row of nothing'
);

-- Failures.

create function pg_temp.fail(p_event_id text, p_error_code text, p_failed_at timestamptz, p_body text default '{}', p_type text default 'x')
returns void
language sql
as $$
  select public.record_failed_event('a', p_event_id, p_body, 'text', p_error_code, 'Failed', p_type);
  update public.failed_events set first_failed_at = p_failed_at, last_failed_at = p_failed_at
  where event_id = p_event_id
$$;

select
  pg_temp.fail('tap_1', 'subscription_unknown', now() - interval '3 hours'),
  pg_temp.fail('tap_2', 'apply_failed', now() - interval '9 hours'),
  pg_temp.fail('tap_3', 'subscription_unknown', now() - interval '5 hours'),
  pg_temp.fail('tap_4', 'event_invalid', now() - interval '1 hour', '{
    "created": 1800000000, "data": {"object": {"id": "sub_4", "metadata": {"accountId": "acc_4"}}}
  }', 'customer.subscription.created'),
  pg_temp.fail('tap_5', 'subscription_unknown', now() - interval '4 hours'),
  pg_temp.fail('tap_6', 'event_invalid', now() - interval '8 hours'),
  pg_temp.fail('tap_7', 'body_empty', now() - interval '20 days'),
  pg_temp.fail('tap_8', 'apply_failed', now() - interval '9 hours');
update public.failed_events set resolved_at = now(), resolution = 'applied' where event_id = 'tap_8';
update public.failed_events set retry_requested_at = now() where event_id = 'tap_2';
update public.failed_events set payload = '{"n": 2}' where event_id = 'tap_6';

select results_eq(
  'select alike, error_code, event_id from public.open_failures',
  $$values
    (3::bigint, 'subscription_unknown', 'tap_3'), (3, 'subscription_unknown', 'tap_5'), (3, 'subscription_unknown', 'tap_1'),
    (2, 'event_invalid', 'tap_6'), (2, 'event_invalid', 'tap_4'),
    (1, 'apply_failed', 'tap_2'), (1, 'body_empty', 'tap_7')$$,
  'the error that most fail of is first, and of one error the oldest; what is resolved is not there'
);
select results_eq(
  $$select type, provider, subscription_id, account_id, error, attempts, first_failed_at = now() - interval '1 hour',
      last_failed_at = now() - interval '1 hour', retry_requested, repaired
    from public.open_failures where event_id = 'tap_4'$$,
  $$values ('customer.subscription.created', 'a', 'sub_4', 'acc_4', 'Failed', 1, true, true, false, false)$$,
  'it tells whose event it is where the payload does'
);
select results_eq(
  $$select event_id, retry_requested, repaired from public.open_failures where retry_requested or repaired order by event_id$$,
  $$values ('tap_2', true, false), ('tap_6', false, true)$$,
  'and whether it was repaired or is about to be retried'
);

-- Events by the hour.

insert into public.processed_events (provider, event_id, type, outcome, processed_at)
select 'a', format('tap_l%s', i), e.type, e.outcome, date_trunc('hour', now()) - interval '1 hour' + make_interval(mins => i)
from (
  values (0, 'invoice.payment_failed', 'applied'), (1, 'invoice.payment_failed', 'applied'),
    (2, 'invoice.payment_failed', 'stale'), (59, 'customer.subscription.updated', 'applied')
) as e (i, type, outcome);
insert into public.processed_events (provider, event_id, type, processed_at) values
  ('a', 'tap_l60', 'invoice.payment_failed', now() - interval '71 hours'),
  ('b', 'tap_l61', 'invoice.payment_failed', now() - interval '73 hours');

select results_eq(
  $$select hour, type, outcome, events from public.billing_events_per_hour where outcome <> 'failed'
    order by hour desc, events desc, outcome$$,
  $$values
    (date_trunc('hour', now()) - interval '1 hour', 'invoice.payment_failed', 'applied', 2::bigint),
    (date_trunc('hour', now()) - interval '1 hour', 'customer.subscription.updated', 'applied', 1),
    (date_trunc('hour', now()) - interval '1 hour', 'invoice.payment_failed', 'stale', 1),
    (date_trunc('hour', now() - interval '71 hours'), 'invoice.payment_failed', 'applied', 1)$$,
  'applied and stale events of three days by hour and type'
);
select results_eq(
  $$select sum(events)::int, count(distinct hour)::int from public.billing_events_per_hour where outcome = 'failed'$$,
  $$values (6, 6)$$,
  'and what failed and is open: not what is resolved, nor what failed earlier'
);
select is(
  (select array_agg(hour order by place) from (
    select hour, row_number() over () as place from public.billing_events_per_hour) as r),
  (select array_agg(hour order by hour desc) from public.billing_events_per_hour),
  'the newest hour is first'
);

-- Health.

insert into public.notifications (provider, event_id, account_id, subscription_id, status, created_at) values
  ('a', 'tap_n1', 'acc_1', 'sub_1', 'pending', now() - interval '2 hours'),
  ('a', 'tap_n2', 'acc_1', 'sub_1', 'pending', now() - interval '4 hours'),
  ('a', 'tap_n3', 'acc_1', 'sub_1', 'sent', now() - interval '9 days'),
  ('a', 'tap_n4', 'acc_1', 'sub_1', 'dead', now() - interval '9 days'),
  ('a', 'tap_n5', 'acc_1', 'sub_1', 'undeliverable', now());
select results_eq(
  $$select last_event_at, open_failures, oldest_open_failure, retries_requested, notifications_pending,
      oldest_pending_notification, notifications_given_up
    from public.billing_health$$,
  $$values (
    date_trunc('hour', now()) - interval '1 minute', 7::bigint, now() - interval '20 days', 1::bigint, 2::bigint,
    now() - interval '4 hours', 2::bigint
  )$$,
  'billing_health counts what is open, wanted, owed and given up, and has the oldest of each'
);
analyze public.processed_events;
select is(
  (select ledger_rows_estimate from public.billing_health), 6::bigint,
  'the ledger''s size is what the planner takes it for'
);

-- Who may look.

select throws_ok(
  format('set local role %I; select * from public.%I', r.name, v.name), '42501',
  format('permission denied for view %s', v.name), format('%s may not read %s', r.name, v.name)
)
from
  unnest(array['anon', 'authenticated']) as r (name),
  unnest(array['open_failures', 'billing_events_per_hour', 'billing_health']) as v (name);
reset role;

select is(
  (select count(*)::int from pg_class c
    where c.relname in ('open_failures', 'billing_events_per_hour', 'billing_health')
      and c.relnamespace = 'public'::regnamespace and c.reloptions @> array['security_invoker=true']),
  3, 'each view has the rights of who reads it'
);
set local role service_role;
select lives_ok(
  format('select * from public.%I', v.name), format('service_role may read %s', v.name)
)
from unnest(array['open_failures', 'billing_events_per_hour', 'billing_health']) as v (name);

select * from finish();
rollback;
