/*
 * What the tables refuse by themselves, no matter who writes to them.
 */
begin;
select plan(46);
set local timezone = 'UTC';

-- Keys and types that other code relies on.

select col_is_pk('public', 'subscriptions', array['id'], 'a subscription is known by its id alone');
select col_is_pk(
  'public', 'processed_events', array['provider', 'event_id'],
  'the ledger holds an event of a provider once'
);
select col_is_pk(
  'public', 'failed_events', array['provider', 'event_id'],
  'a failed event of a provider has one row'
);
select col_is_pk('public', 'notifications', array['id'], 'a notification has an id of its own');
select col_is_unique(
  'public', 'notifications', array['provider', 'event_id'],
  'an event of a provider owes one notification at most'
);
select col_type_is(
  'public', 'subscriptions', 'current_period_end', 'timestamp with time zone',
  'current_period_end is a point in time, not a wall clock''s reading'
);
select col_type_is(
  'public', 'subscriptions', 'canceled_at', 'timestamp with time zone',
  'canceled_at is a point in time, not a wall clock''s reading'
);
select col_type_is('public', 'failed_events', 'payload', 'jsonb', 'the payload can be queried as JSON');

-- Each statement below differs from a good one in one value.

create function pg_temp.subscription(p_change jsonb)
returns text
language sql
as $$
  select format('insert into public.subscriptions select * from jsonb_populate_record(null::public.subscriptions, %L)',
    '{
      "id": "tap_sub", "provider": "a", "account_id": "acc_1", "status": "active",
      "plan_id": "plan_1", "current_period_end": "2027-02-01T00:00:00Z",
      "changed_by_update": false, "changed_in_second": {}
    }'::jsonb || p_change)
$$;

create function pg_temp.processed(p_change jsonb)
returns text
language sql
as $$
  select format('insert into public.processed_events select * from jsonb_populate_record(null::public.processed_events, %L)',
    '{
      "provider": "a", "event_id": "tap_1", "type": "x", "outcome": "applied",
      "processed_at": "2027-01-01T00:00:00Z"
    }'::jsonb || p_change)
$$;

create function pg_temp.failed(p_change jsonb)
returns text
language sql
as $$
  -- The other columns are generated.
  select format(
    'insert into public.failed_events (provider, event_id, payload, payload_encoding, error_code, error, attempts, '
    'first_failed_at, last_failed_at, resolved_at, resolution) '
    'select provider, event_id, payload, payload_encoding, error_code, error, attempts, '
    'first_failed_at, last_failed_at, resolved_at, resolution '
    'from jsonb_populate_record(null::public.failed_events, %L)',
    '{
      "provider": "a", "event_id": "tap_1", "payload": {}, "payload_encoding": "json",
      "error_code": "x", "error": "x", "attempts": 1,
      "first_failed_at": "2027-01-01T00:00:00Z", "last_failed_at": "2027-01-01T00:00:00Z"
    }'::jsonb || p_change)
$$;

create function pg_temp.notification(p_change jsonb)
returns text
language sql
as $$
  select format(
    'insert into public.notifications (provider, event_id, account_id, subscription_id, status, attempts) '
    'select provider, event_id, account_id, subscription_id, status, attempts '
    'from jsonb_populate_record(null::public.notifications, %L)',
    '{
      "provider": "a", "event_id": "tap_1", "account_id": "acc_1",
      "subscription_id": "tap_sub", "status": "pending", "attempts": 0
    }'::jsonb || p_change)
$$;

create function pg_temp.text_of(p_length integer)
returns text
language sql
as $$
  -- Characters of two bytes each: the limits are in characters.
  select repeat('ü', p_length)
$$;

select throws_ok(
  pg_temp.subscription(jsonb_build_object(c.name, '')), '23514', null,
  format('subscriptions refuses an empty %s', c.name)
)
from unnest(array['id', 'provider', 'account_id', 'status', 'plan_id']) as c (name);

select throws_ok(
  pg_temp.subscription(jsonb_build_object(c.name, pg_temp.text_of(256))), '23514', null,
  format('subscriptions refuses a %s of 256 characters', c.name)
)
from unnest(array['id', 'account_id', 'status', 'plan_id']) as c (name);

select throws_ok(
  pg_temp.subscription(jsonb_build_object(c.name, null)), '23502', null,
  format('subscriptions refuses a row without %s', c.name)
)
from unnest(array['account_id', 'status', 'plan_id', 'current_period_end']) as c (name);

select lives_ok(
  pg_temp.subscription(jsonb_build_object(
    'id', pg_temp.text_of(255), 'account_id', pg_temp.text_of(255),
    'status', pg_temp.text_of(255), 'plan_id', pg_temp.text_of(255)
  )),
  'subscriptions takes texts of 255 characters, and any status that a provider may report'
);
select lives_ok(pg_temp.subscription('{}'), 'subscriptions takes a row that has what is required');
select throws_ok(
  pg_temp.subscription('{"provider": "b"}'), '23505', null,
  'two providers cannot both have a subscription of one id'
);

select throws_ok(
  pg_temp.processed('{"event_id": ""}'), '23514', null, 'the ledger refuses an empty event id'
);
select throws_ok(
  pg_temp.processed(jsonb_build_object('event_id', pg_temp.text_of(256))), '23514', null,
  'the ledger refuses an event id of 256 characters'
);
select throws_ok(
  pg_temp.processed('{"outcome": "failed"}'), '23514', null,
  'the ledger refuses an outcome other than applied and stale: what failed is not in it'
);
select lives_ok(
  pg_temp.processed(jsonb_build_object('event_id', pg_temp.text_of(255), 'outcome', 'stale')),
  'the ledger takes an event id of 255 characters'
);
select lives_ok(
  pg_temp.processed('{}') || ';' || pg_temp.processed('{"provider": "b"}'),
  'the ledger takes the same event id from both providers'
);

select throws_ok(
  pg_temp.failed('{"payload_encoding": "hex"}'), '23514', null,
  'failed_events refuses an unknown payload encoding'
);
select throws_ok(
  pg_temp.failed('{"attempts": 0}'), '23514', null,
  'failed_events refuses a row of an event that never failed'
);
select throws_ok(
  pg_temp.failed('{"resolved_at": "2027-01-02T00:00:00Z"}'), '23514', null,
  'failed_events refuses a row that was resolved nobody knows how'
);
select throws_ok(
  pg_temp.failed('{"resolution": "applied"}'), '23514', null,
  'failed_events refuses a row that has a resolution and is open'
);
select throws_ok(
  pg_temp.failed('{"resolved_at": "2027-01-02T00:00:00Z", "resolution": "failed"}'), '23514', null,
  'failed_events refuses an unknown resolution'
);
select lives_ok(
  pg_temp.failed('{"resolved_at": "2027-01-02T00:00:00Z", "resolution": "by hand"}'),
  'failed_events takes a row that was resolved by hand'
);

select throws_ok(
  pg_temp.notification('{"status": "delivered"}'), '23514', null,
  'notifications refuses an unknown status'
);
select throws_ok(
  'insert into public.notifications (kind, provider, event_id, account_id, subscription_id, alert) values ' || n.row,
  '23514', null, format('notifications refuses %s', n.what)
)
from (values
  ('a kind that is unknown', $$('reminder', 'a', 'tap_1', 'acc_1', 'tap_sub', null)$$),
  ('one to an account without an account', $$('payment_failed', 'a', 'tap_1', null, 'tap_sub', null)$$),
  ('one to an account without an event', $$('payment_failed', 'a', null, 'acc_1', 'tap_sub', null)$$),
  ('one to an account without a provider', $$('payment_failed', null, 'tap_1', 'acc_1', 'tap_sub', null)$$),
  ('one to an account without a subscription', $$('payment_failed', 'a', 'tap_1', 'acc_1', null, null)$$),
  ('one to an account with an alert', $$('payment_failed', 'a', 'tap_1', 'acc_1', 'tap_sub', '{"error_code": "x"}')$$),
  ('an alert that says nothing', $$('failure_opened', null, null, null, null, null)$$),
  ('an alert without an error code', $$('failures_resolved', null, null, null, null, '{"resolved": 1}')$$)
) as n (what, row);
select throws_ok(
  pg_temp.notification('{"attempts": -1}'), '23514', null,
  'notifications refuses a negative number of attempts'
);
select lives_ok(
  pg_temp.notification('{"event_id": "tap_1", "status": "pending"}') || ';'
    || pg_temp.notification('{"event_id": "tap_2", "status": "sent"}') || ';'
    || pg_temp.notification('{"event_id": "tap_3", "status": "dead"}') || ';'
    || pg_temp.notification('{"event_id": "tap_4", "status": "undeliverable"}') || ';'
    || pg_temp.notification('{"event_id": "tap_5", "status": "withdrawn"}'),
  'notifications takes the five states of a promise'
);

select * from finish();
rollback;
