/*
 * record_failed_event: what could not be processed is kept as it was received,
 * once, for as long as it is not applied.
 */
begin;
select plan(59);
set local timezone = 'UTC';

create function pg_temp.file(p_event_id text, p_body text, p_body_encoding text default 'text', p_error text default 'Unreadable')
returns boolean
language sql
as $$
  select public.record_failed_event(
    p_provider => 'a', p_event_id => p_event_id, p_body => p_body, p_body_encoding => p_body_encoding,
    p_error_code => 'event_invalid', p_error => p_error, p_type => 'customer.subscription.created'
  )
$$;

create function pg_temp.failed(p_event_id text)
returns public.failed_events
language sql
as $$
  select * from public.failed_events where provider = 'a' and event_id = p_event_id
$$;

create function pg_temp.apply(p_event_id text)
returns text
language sql
as $$
  select a.outcome
  from public.apply_billing_events(jsonb_build_array(jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'customer.subscription.created',
    'subscription_id', 'tap_sub', 'account_id', 'acc_1', 'plan_id', 'plan_1',
    'current_period_end', '2027-02-01T00:00:00Z'
  ))) as a
$$;

set local role service_role;

-- A new row.

select is(pg_temp.file('tap_1', '{"id": "tap_1", "n": [1, null]}'), true, 'an event that failed is filed');
select is(
  (select jsonb_strip_nulls(to_jsonb(f)) || jsonb_build_object('payload', payload) from pg_temp.failed('tap_1') as f),
  jsonb_build_object(
    'provider', 'a', 'event_id', 'tap_1', 'type', 'customer.subscription.created',
    'payload', '{"id": "tap_1", "n": [1, null]}'::jsonb, 'payload_encoding', 'json',
    'error_code', 'event_invalid', 'error', 'Unreadable', 'attempts', 1,
    'first_failed_at', now(), 'last_failed_at', now()
  ),
  'its row has the whole event, the failure, one attempt, and nothing else: it is open'
);
select is_empty(
  $$select event_id from public.processed_events where event_id = 'tap_1'$$,
  'the claim that filing takes is given back'
);
select is_empty(
  $$select id from public.subscriptions where id like 'tap\_%'$$,
  'filing an event has nothing of its effect'
);
select is(
  public.record_failed_event('a', 'tap_2', '{}', 'text', 'event_invalid', 'Unreadable'), true,
  'an event whose type could not be read is filed'
);
select is((pg_temp.failed('tap_2')).type, null, 'its row has no type');
select is(
  public.record_failed_event('b', 'tap_1', '{"of": "b"}', 'text', 'event_invalid', 'Unreadable'), true,
  'another provider''s event under the same id is filed'
);
select is(
  (pg_temp.failed('tap_1')).payload, '{"id": "tap_1", "n": [1, null]}',
  'it has a row of its own'
);

-- The body as it was received.

select is(
  pg_temp.file('tap_3', '{"big": 12345678901234567890, "fine": 0.1234567890123456789, "huge": -1e39, "money": 1.10}'),
  true,
  'a body with numbers that JavaScript cannot hold is filed'
);
select is((pg_temp.failed('tap_3')).payload_encoding, 'json', 'it is kept as JSON');
select is(
  (pg_temp.failed('tap_3')).payload ->> 'big', '12345678901234567890',
  'an integer of twenty digits is kept to the last one'
);
select is(
  (pg_temp.failed('tap_3')).payload ->> 'fine', '0.1234567890123456789',
  'a fraction of nineteen digits is kept to the last one'
);
select is(
  (pg_temp.failed('tap_3')).payload ->> 'huge', '-1' || repeat('0', 39),
  'a number of forty digits is kept in full'
);
select is((pg_temp.failed('tap_3')).payload ->> 'money', '1.10', 'a trailing zero is kept');

select is(pg_temp.file(b.id, b.body), true, format('a body with %s is filed', b.meaning))
from (
  values
    ('tap_4', '{"id": "\u0000"}', 'an escaped zero byte'),
    ('tap_5', '{"id": "\ud800"}', 'a lone surrogate'),
    ('tap_6', repeat('[', 100000) || repeat(']', 100000), 'nesting of 100,000 levels'),
    ('tap_7', '{"n": 1e200000}', 'a number beyond the largest numeric'),
    ('tap_8', '{"id": "tap_8",', 'JSON that is cut short'),
    ('tap_9', '', 'nothing in it'),
    ('tap_10', E' "ü\t\n" ü ', 'text that is no JSON'),
    ('tap_14', '{"n": [{"n": 1e40}]}', 'a number of 41 digits'),
    ('tap_15', '{"n": -1e131071}', 'a number of 131,072 digits'),
    ('tap_16', '{"n": 0e-16383}', 'a nought with 16,383 noughts behind the point')
) as b (id, body, meaning);
select is(
  (pg_temp.failed(b.id)).payload_encoding, 'text', format('a body with %s is kept as text', b.meaning)
)
from (
  values
    ('tap_4', 'an escaped zero byte'),
    ('tap_5', 'a lone surrogate'),
    ('tap_6', 'nesting of 100,000 levels'),
    ('tap_7', 'a number beyond the largest numeric'),
    ('tap_8', 'JSON that is cut short'),
    ('tap_9', 'nothing in it'),
    ('tap_10', 'text that is no JSON'),
    ('tap_14', 'a number of 41 digits'),
    ('tap_15', 'a number of 131,072 digits'),
    ('tap_16', 'a nought with 16,383 noughts behind the point')
) as b (id, meaning);
select results_eq(
  $$select (pg_temp.failed(b.id)).payload #>> '{}' = b.body
    from (
      values
        ('tap_4', '{"id": "\u0000"}'),
        ('tap_5', '{"id": "\ud800"}'),
        ('tap_6', repeat('[', 100000) || repeat(']', 100000)),
        ('tap_7', '{"n": 1e200000}'),
        ('tap_8', '{"id": "tap_8",'),
        ('tap_9', ''),
        ('tap_10', E' "ü\t\n" ü '),
        ('tap_14', '{"n": [{"n": 1e40}]}'),
        ('tap_15', '{"n": -1e131071}'),
        ('tap_16', '{"n": 0e-16383}')
    ) as b (id, body)$$,
  $$select true from generate_series(1, 10)$$,
  'the text is the body to the letter'
);
select is(pg_temp.file('tap_11', '"text"'), true, 'a body that is a JSON string is filed');
select is(
  (select jsonb_build_array(payload, payload_encoding) from pg_temp.failed('tap_11')),
  '["text", "json"]',
  'a JSON string is told from text that is no JSON'
);
select is(pg_temp.file('tap_12', '1234', 'base64'), true, 'bytes that are not text are filed');
select is(
  (select jsonb_build_array(payload, payload_encoding) from pg_temp.failed('tap_12')),
  '["1234", "base64"]',
  'base64 is kept as a string, even where it reads as JSON'
);
select is(
  pg_temp.file('tap_17', '{"id": "sub_1e131071", "1e131071": "1e131071"}'), true,
  'a body is filed with such letters in a string'
);
select is((pg_temp.failed('tap_17')).payload_encoding, 'json', 'which are no number: it is kept as JSON');

-- The same event fails again.

update public.failed_events set
  first_failed_at = '2027-01-01T00:00:00Z',
  last_failed_at = '2027-01-02T00:00:00Z',
  resolved_at = '2027-01-03T00:00:00Z',
  resolution = 'by hand',
  resolution_note = 'A test of ours',
  resolved_by = 'somebody'
where event_id = 'tap_1';
select is(
  pg_temp.file('tap_1', '{"id": "tap_1"', 'text', 'Unreadable again'), true,
  'an event that fails again is filed again'
);
select is(
  (select jsonb_strip_nulls(to_jsonb(f) - 'first_failed_at' - 'last_failed_at') from pg_temp.failed('tap_1') as f),
  '{
    "provider": "a", "event_id": "tap_1", "type": "customer.subscription.created",
    "payload": "{\"id\": \"tap_1\"", "payload_encoding": "text",
    "error_code": "event_invalid", "error": "Unreadable again", "attempts": 2
  }',
  'its one row counts the attempt and has the newest body and failure'
);
select is(
  (pg_temp.failed('tap_1')).first_failed_at, '2027-01-01T00:00:00Z'::timestamptz,
  'the time of the first failure stays'
);
select is((pg_temp.failed('tap_1')).last_failed_at, now(), 'the time of the last failure is now');
select is(
  (select num_nonnulls(resolved_at, resolution, resolution_note, resolved_by) from pg_temp.failed('tap_1')), 0,
  'a row that was resolved is open again, and says nothing of how it was'
);
select is(
  (select jsonb_build_array(payload, attempts, last_failed_at, resolved_at) from public.failed_events
    where provider = 'b' and event_id = 'tap_1'),
  '[{"of": "b"}, 1, "2027-01-02T00:00:00+00:00", "2027-01-03T00:00:00+00:00"]',
  'the other provider''s row is left alone'
);
select is(
  public.record_failed_event('a', 'tap_1', '{}', 'text', 'subscription_missing', 'Gone', 'invoice.payment_failed'),
  true,
  'it fails a third time, in another way'
);
select is(
  (select jsonb_build_array(payload, payload_encoding, type, error_code, error, attempts) from pg_temp.failed('tap_1')),
  '[{}, "json", "invoice.payment_failed", "subscription_missing", "Gone", 3]',
  'the row tells what happened last, and how often'
);

-- Between filing and applying.

select is(pg_temp.apply('tap_1'), 'applied', 'an event that was filed can still be applied');
select is((pg_temp.failed('tap_1')).resolved_at, now(), 'applying it resolves its row');
select is(
  pg_temp.file('tap_1', '{}'), false,
  'an event that has been applied meanwhile is not filed'
);
select is(
  (select jsonb_build_array(attempts, resolved_at = now()) from pg_temp.failed('tap_1')), '[3, true]',
  'its row stays resolved and counts no attempt'
);
select is(pg_temp.apply('tap_1'), 'duplicate', 'its claim stays, so that it is not applied again');
select is(pg_temp.apply('tap_13'), 'stale', 'an event that never failed is settled');
select is(pg_temp.file('tap_13', '{}'), false, 'it is not filed either, should its answer have been lost');
select is_empty(
  $$select event_id from public.failed_events where event_id = 'tap_13'$$,
  'it has no row'
);

select is(
  public.record_failed_event('b', 'tap_13', '{}', 'text', 'event_invalid', 'Unreadable'), true,
  'the other provider''s event under the same id is filed, since it was not settled'
);
select set_eq(
  $$select provider from public.processed_events where event_id = 'tap_13'$$, array['a'],
  'the claim that is given back is that of the event that was filed'
);

select * from finish();
rollback;
