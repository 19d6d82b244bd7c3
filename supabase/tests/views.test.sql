/*
 * The views of triage and monitoring: what they show, and in which order.
 */
begin;
select plan(9);
truncate billing.failed_events, billing.notifications, billing.processed_events, billing.leases;

create function pg_temp.health()
returns jsonb language sql as $$
  select to_jsonb(h) - 'schema_version' from public.billing_health h
$$;

select set_eq(
  $$select value, count(*) from jsonb_each(pg_temp.health()) group by value$$,
  $$values ('null'::jsonb, 5::bigint), ('0', 7), ('[]', 1)$$,
  'the health is one row, even of nothing'
);

create function billing.on_b_c(provider text, event jsonb) returns void language sql as '';

create function billing.on_a(text, jsonb) returns void language sql as '';

create function billing.on_other(jsonb, text) returns void language sql as '';

create function billing.on_closed(text, jsonb) returns void language sql as '';
revoke execute on function billing.on_closed from public;

create function billing.once(text, jsonb) returns void language sql as '';

select pg_temp.file(f.event_id, f.error_code, 'sub_' || f.event_id, jsonb_build_object(
  'account_id', 'acc_' || f.event_id
))
from (
  values
    ('1', 'subscription_unknown'),
    ('2', 'apply_failed'),
    ('3', 'subscription_unknown'),
    ('4', 'event_invalid'),
    ('5', 'subscription_unknown'),
    ('6', 'event_invalid'),
    ('7', 'body_empty'),
    ('8', 'apply_failed')
) as f (event_id, error_code);
update billing.failed_events f
set first_failed_at = now() - t.ago, last_failed_at = now() - t.ago
from (
  values
    ('1', interval '3 h'),
    ('2', '9 h'),
    ('3', '5 h'),
    ('4', '1 h'),
    ('5', '4 h'),
    ('6', '8 h'),
    ('7', '20 days'),
    ('8', '9 h')
) as t (event_id, ago)
where f.event_id = t.event_id;
update billing.failed_events set resolved_at = now(), resolution = 'applied' where event_id = '8';
update billing.failed_events set retry_requested_at = now() where event_id = '2';
update billing.failed_events set payload = '{"n": 2}' where event_id = '6';
select is(
  (select string_agg(concat_ws(' ', alike, error_code, event_id), ', ') from billing.open_failures),
  '3 subscription_unknown 3, 3 subscription_unknown 5, 3 subscription_unknown 1, '
    '2 event_invalid 6, 2 event_invalid 4, 1 apply_failed 2, 1 body_empty 7',
  'open failures begin with the most frequent error and its oldest failure'
);
select is(
  (select to_jsonb(f) from billing.open_failures f where event_id = '4'),
  jsonb_build_object(
    'alike', 2,
    'error_code', 'event_invalid',
    'type', 'x',
    'event_id', '4',
    'provider', 'a',
    'subscription_id', 'sub_4',
    'account_id', 'acc_4',
    'error', 'Failed',
    'attempts', 1,
    'first_failed_at', now() - interval '1 h',
    'last_failed_at', now() - interval '1 h',
    'retry_requested', false,
    'next_retry_at', null,
    'repaired', false
  ),
  'an open failure shows what is known of its event'
);
select set_eq(
  $$
    select event_id, retry_requested, repaired
    from billing.open_failures
    where retry_requested or repaired
  $$,
  $$values ('2', true, false), ('6', false, true)$$,
  'an open failure shows its repair and its requested retry'
);

insert into billing.processed_events (provider, event_id, type, outcome, processed_at)
select
  'a',
  i::text,
  e.type,
  e.outcome,
  date_trunc('hour', now()) - interval '1 hour' + make_interval(mins => i)
from (
  values
    (0, 'payment', 'applied'),
    (1, 'payment', 'applied'),
    (2, 'payment', 'stale'),
    (59, 'update', 'applied')
) as e (i, type, outcome);
insert into billing.processed_events (provider, event_id, type, processed_at)
values
  ('a', '60', 'payment', now() - interval '71 hours'),
  ('b', '61', 'payment', now() - interval '73 hours');
select results_eq(
  $$
    select hour, type, outcome, events
    from billing.events_per_hour
    where outcome <> 'failed'
    order by hour desc, events desc, outcome
  $$,
  $$
    values
      (date_trunc('hour', now()) - interval '1 hour', 'payment', 'applied', 2::bigint),
      (date_trunc('hour', now()) - interval '1 hour', 'update', 'applied', 1),
      (date_trunc('hour', now()) - interval '1 hour', 'payment', 'stale', 1),
      (date_trunc('hour', now() - interval '71 hours'), 'payment', 'applied', 1)
  $$,
  'events_per_hour counts applied and stale events of three days'
);
select results_eq(
  $$
    select sum(events)::integer, count(distinct hour)::integer
    from billing.events_per_hour
    where outcome = 'failed'
  $$,
  $$values (6, 6)$$,
  'events_per_hour counts open failures of three days'
);
select is(
  (select array_agg(hour) from (select hour from billing.events_per_hour) as e),
  (select array_agg(hour order by hour desc) from billing.events_per_hour),
  'events_per_hour begins with the newest hour'
);

insert into billing.notifications (
  provider,
  event_id,
  account_id,
  subscription_id,
  status,
  created_at
)
values
  ('a', '1', 'acc_1', 'sub_1', 'pending', now() - interval '2 hours'),
  ('a', '2', 'acc_1', 'sub_1', 'pending', now() - interval '4 hours'),
  ('a', '3', 'acc_1', 'sub_1', 'sent', now() - interval '9 days'),
  ('a', '4', 'acc_1', 'sub_1', 'dead', now() - interval '9 days'),
  ('a', '5', 'acc_1', 'sub_1', 'undeliverable', now()),
  ('a', '6', 'acc_1', 'sub_1', 'withdrawn', now());
insert into billing.sweeps (provider, last_success_at)
values ('a', now()), ('b', now() - interval '2 hours');
insert into billing.missed_events (provider, type, found_at, events)
values
  ('a', 'x', now() - interval '6 days', 2),
  ('b', 'y', now(), 3),
  ('a', 'x', now() - interval '8 days', 9);

select is(
  pg_temp.health(),
  jsonb_build_object(
    'last_event_at', date_trunc('hour', now()) - interval '1 minute',
    'open_failures', 7,
    'oldest_open_failure', now() - interval '20 days',
    'retries_requested', 1,
    'notifications_pending', 2,
    'oldest_pending_notification', now() - interval '4 hours',
    'notifications_given_up', 2,
    'last_scheduled_run_at', null,
    'last_swept_at', now() - interval '2 hours',
    'missed_events', 5,
    'handlers', jsonb_build_array('on_a', 'on_b_c'),
    'erased_purchases', 0,
    'double_subscribed', 0
  ),
  'the health counts failures, retries, notifications and handlers'
);

insert into billing.subscriptions (
  id,
  provider,
  account_id,
  status,
  plan_id,
  account_mark,
  changed_mark
)
select 'tap_' || n, 'a', 'acc_1', 'active', 'plan_1', 4000000 * n, 4000000 * n + n
from generate_series(0, 2) as n;
set local role service_role;
select results_eq(
  $$
    select account_as_of, changed_as_of, changed_by_update, canceled_as_of
    from public.billing_records
    order by id
  $$,
  $$
    select to_timestamp(n), to_timestamp(n), n = 1, null::timestamptz
    from generate_series(0, 2) as n
  $$,
  'commands read marks as times'
);

select * from finish();
rollback;
