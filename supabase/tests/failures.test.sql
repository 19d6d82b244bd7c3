/*
 * Failed events: stored as they were received, once, for as long as they are not applied;
 * repaired, and resolved by hand.
 */
begin;
select plan(64);

create function pg_temp.store(
  event_id text,
  body text,
  encoding text default 'text',
  error text default 'Unreadable',
  error_code text default 'event_invalid',
  type text default 'provider.creation',
  provider text default 'a'
)
returns text language sql as $$
  select pg_temp.file(event_id, error_code, null, jsonb_build_object(
    'provider', provider,
    'body', body,
    'body_encoding', encoding,
    'error', error,
    'type', type,
    'kind', null
  ))
$$;

create function pg_temp.created(event_id text)
returns text language sql
return pg_temp.apply(pg_temp.event(event_id, 'creation', 'tap_sub', null));

create function pg_temp.repair(event_id text, payload jsonb)
returns void language sql as $$
  update public.billing_failed_events f
  set payload = repair.payload
  where f.event_id = repair.event_id and f.provider = 'a'
$$;

set local role service_role;

-- A new row.
select pg_temp.file('tap_1', 'event_invalid', 'sub_1', '{
  "body": "{\"id\": \"tap_1\", \"n\": [1, null]}",
  "error": "Unreadable",
  "type": "provider.creation",
  "kind": "creation",
  "customer_id": "cus_1",
  "account_id": "acc_1",
  "occurred_at": "2027-01-01T00:00:00Z"
}');
select is(
  (
    select jsonb_strip_nulls(to_jsonb(f)) || jsonb_build_object('payload', payload)
    from pg_temp.failed('tap_1') as f
  ),
  jsonb_build_object(
    'provider', 'a',
    'event_id', 'tap_1',
    'type', 'provider.creation',
    'payload', '{"id": "tap_1", "n": [1, null]}'::jsonb,
    'payload_encoding', 'json',
    'error_code', 'event_invalid',
    'error', 'Unreadable',
    'attempts', 1,
    'scheduled_retries', 0,
    'first_failed_at', now(),
    'last_failed_at', now(),
    'kind', 'creation',
    'subscription_id', 'sub_1',
    'customer_id', 'cus_1',
    'account_id', 'acc_1',
    'occurred_at', '2027-01-01T00:00:00+00:00'
  ),
  'a failed event is stored open, with its payload, its failure and one attempt'
);
select is_empty(
  $$select event_id from billing.processed_events where event_id = 'tap_1'$$,
  'storing a failure leaves no claim'
);

select pg_temp.store('tap_2', '{}', type => null);
select is(
  (
    select num_nonnulls(type, kind, subscription_id, customer_id, account_id, occurred_at)
    from pg_temp.failed('tap_2')
  ),
  0,
  'an unreadable event is stored with what is known'
);

select pg_temp.store('tap_1', '{"of": "b"}', provider => 'b');
select is(
  (pg_temp.failed('tap_1')).payload ->> 'id',
  'tap_1',
  'the other provider''s event with the same id has its own row'
);

-- The body as it was received.
create temporary table bodies as select 'tap_body_'
  || row_number() over () as event_id, b.* from (
    values
      ('json', '{"big": 12345678901234567890, "fine": 0.1234567890123456789, "money": 1.10}',
        'numbers that JavaScript cannot hold'),
      ('json', '{"huge": -1e39, "tiny": 1e-40}', 'numbers of forty digits'),
      ('json', '"text"', 'a JSON string'),
      ('json', 'null', 'JSON null'),
      ('json', '{"id": "sub_1e131071", "1e131071": "1e131071"}', 'strings that look like long numbers'),
      ('text', '{"id": "\u0000"}', 'an escaped zero byte'),
      ('text', '{"id": "\ud800"}', 'a lone surrogate'),
      ('text', repeat('[', 100000) || repeat(']', 100000), 'nesting of 100,000 levels'),
      ('text', '{"n": 1e200000}', 'a number beyond the largest numeric'),
      ('text', '{"id": "tap",', 'JSON that is cut short'),
      ('text', '', 'nothing'),
      ('text', E' "ü\t\n" ü ', 'text that is not JSON'),
      ('text', '{"n": [{"n": 1e40}]}', 'a number of 41 digits'),
      ('text', '{"n": -1e131071}', 'a number of 131,072 digits'),
      ('text', '{"n": 1e-41}', '41 digits after the point')
  ) as b (encoding, body, meaning);
select pg_temp.store(event_id, body) from bodies;
select is(
  (pg_temp.failed(event_id)).payload_encoding,
  encoding,
  format('%s: stored as %s', meaning, encoding)
)
from bodies;
select is_empty(
  $$
    select b.meaning
    from bodies b, pg_temp.failed(b.event_id) as f
    where case b.encoding
      when 'text' then f.payload #>> '{}' is distinct from b.body
      else f.payload is distinct from b.body::jsonb
    end
  $$,
  'text is the body, to the letter; JSON is the event, to the last digit'
);
select is(
  (pg_temp.failed('tap_body_1')).payload ->> 'money',
  '1.10',
  'JSON keeps a zero at the end of a number'
);

select pg_temp.store('tap_bytes', '1234', 'base64');
select is(
  pg_temp.fields('tap_bytes', '{payload,payload_encoding}'),
  '["1234", "base64"]',
  'bytes that are not text are base64, also if that reads as JSON'
);

-- The same event fails again.
update billing.failed_events
set
  first_failed_at = '2027-01-01T00:00:00Z',
  last_failed_at = '2027-01-02T00:00:00Z',
  resolved_at = '2027-01-03T00:00:00Z',
  resolution = 'by hand',
  resolution_note = 'A test',
  resolved_by = 'somebody'
where event_id = 'tap_1';
select pg_temp.store('tap_1', '{"id": "tap_1"', error => 'Unreadable again');
select is(
  (select jsonb_strip_nulls(to_jsonb(f)) from pg_temp.failed('tap_1') as f),
  jsonb_build_object(
    'provider', 'a',
    'event_id', 'tap_1',
    'type', 'provider.creation',
    'payload', '{"id": "tap_1"',
    'payload_encoding', 'text',
    'error_code', 'event_invalid',
    'error', 'Unreadable again',
    'attempts', 2,
    'scheduled_retries', 0,
    'first_failed_at', '2027-01-01T00:00:00+00:00',
    'last_failed_at', now()
  ),
  'a failure that comes again is open, with one attempt more and all that is new'
);
select is(
  pg_temp.fields('tap_1', '{payload,attempts,last_failed_at,resolution}', 'b'),
  '[{"of": "b"}, 1, "2027-01-02T00:00:00+00:00", "by hand"]',
  'the other provider''s row stays'
);

-- Applied meanwhile.
select pg_temp.created('tap_1');
select is(
  pg_temp.fields('tap_1', '{resolution,resolved_at,attempts}'),
  jsonb_build_array('applied', now(), 2),
  'a stored event that is applied is resolved'
);
select is(
  (pg_temp.failed('tap_1', 'b')).resolution,
  'by hand',
  'the other provider''s event is not resolved'
);

update billing.failed_events
set resolved_at = '2027-01-04T00:00:00Z'
where event_id = 'tap_1' and provider = 'a';
select is(
  pg_temp.store('tap_1', '{}') || ', ' || pg_temp.created('tap_1'),
  'applied, duplicate',
  'an event that was applied is not stored, and keeps its claim'
);
select is(
  pg_temp.fields('tap_1', '{resolution,resolved_at,attempts,payload_encoding}'),
  '["applied", "2027-01-04T00:00:00+00:00", 2, "text"]',
  'its row stays'
);
select pg_temp.created('tap_3');
select is(pg_temp.store('tap_3', '{}'), 'applied', 'nor is one that was stale');
select is((pg_temp.failed('tap_3')).event_id, null, 'it has no failure');

select is(pg_temp.store('tap_3', '{}', provider => 'b'), 'stored', 'the other provider''s is');
select set_eq(
  $$select provider from billing.processed_events where event_id = 'tap_3'$$,
  array['a'],
  'that leaves the claim'
);

select pg_temp.store('tap_2', '{}'), pg_temp.store('tap_4', '{}');
select pg_temp.created('tap_2');
select is(
  array[(pg_temp.failed('tap_2')).resolution, (pg_temp.failed('tap_4')).resolution],
  '{stale,null}',
  'a stored event that is stale is resolved, and no other'
);
select is(
  pg_temp.apply(pg_temp.event('tap_4', 'update', 'tap_none', null)),
  'failed BW001',
  'a stored event may fail again'
);

-- A repair keeps what was received.
select pg_temp.file('tap_5', 'event_invalid', 'sub_5', '{
  "body": "{\"n\": 1}", "error": "Unreadable", "kind": "creation",
  "customer_id": "cus_5", "account_id": "acc_5",
  "occurred_at": "2027-01-01Z"
}');
update billing.failed_events set payload = payload, error = 'Another' where event_id = 'tap_5';
select is(
  (pg_temp.failed('tap_5')).original_payload,
  null,
  'writing the same payload is no repair'
);

select pg_temp.repair('tap_5', '{"n": 2}'), pg_temp.repair('tap_5', '{"n": 3}');
select is(
  pg_temp.fields('tap_5', '{payload,original_payload,attempts}'),
  '[{"n": 3}, {"n": 1}, 1]',
  'a second repair keeps the received payload, and counts no attempt'
);

select pg_temp.store('tap_5', '{"n": 1');
select is(
  pg_temp.fields('tap_5', '{payload,payload_encoding,original_payload,type,kind,subscription_id,customer_id,account_id,
    occurred_at,error,attempts}'),
  '[
    {"n": 3},
    "json",
    {"n": 1},
    "x",
    "creation",
    "sub_5",
    "cus_5",
    "acc_5",
    "2027-01-01T00:00:00+00:00",
    "Unreadable",
    2
  ]',
  'the old body counts an attempt, and leaves the repair'
);

select pg_temp.store('tap_5', '{"n": 1}', error_code => 'repair_pending');
select is(
  pg_temp.fields('tap_5', '{error_code,error,attempts}'),
  '["event_invalid", "Unreadable", 3]',
  'repair_pending leaves the error that was repaired'
);

select pg_temp.store('tap_4', '{"n": 2}');
select is(
  pg_temp.fields('tap_4', '{payload,original_payload}'),
  '[{"n": 2}, null]',
  'a new body is no repair'
);

select
  pg_temp.store('tap_6', '{"n": '),
  pg_temp.store('tap_7', 'gID/', 'base64'),
  pg_temp.store('tap_8', '{"n": ');
select
  pg_temp.repair('tap_6', '{"n": 1}'),
  pg_temp.repair('tap_7', '{"n": 1}'),
  pg_temp.repair('tap_8', '"{}"');
select results_eq(
  $$
    select f.payload_encoding, f.original_payload
    from unnest(array['tap_6', 'tap_7', 'tap_8']) as id, pg_temp.failed(id) as f
  $$,
  $$values ('json', '"{\"n\": "'::jsonb), ('json', '"gID/"'), ('text', '"{\"n\": "')$$,
  'text or bytes become JSON when they are repaired with JSON'
);
select throws_ok(
  $$select pg_temp.repair('tap_4', '{"n": [1e40]}')$$,
  'P0001',
  'Cannot repair tap_4: the payload has a number of more than 40 digits.',
  'a payload that exhausts the memory is refused'
);
select throws_ok(
  $$select pg_temp.repair('tap_2', '{"n": 2}')$$,
  'P0001',
  'Cannot repair tap_2: it is already resolved (stale).',
  'a repair of a resolved row is refused'
);

update billing.failed_events
set payload = '{"n": 2}', resolved_at = null, resolution = null
where event_id = 'tap_2';
select is(
  (pg_temp.failed('tap_2')).original_payload,
  '{}',
  'a row that opens again can be repaired'
);

update billing.failed_events
set resolved_at = now(), resolution = 'applied'
where event_id = 'tap_2';
update billing.failed_events set payload = null, original_payload = null where event_id = 'tap_2';
select is(
  (select num_nonnulls(payload, original_payload) from pg_temp.failed('tap_2')),
  0,
  'pruning is no repair'
);

-- version changes whenever the row does, so that the console does not overwrite a change.
create temporary table versions as
select event_id, version from public.billing_failed_events where provider = 'a';

select is_empty(
  $$
    select
    from versions v
    join public.billing_failed_events f using (event_id)
    where f.provider = 'a' and f.version <> v.version
  $$,
  'an unchanged row keeps its version'
);

savepoint later;
update public.billing_failed_events set payload = '{"n": 4}' where event_id = 'tap_5';
select ok(
  (
    select f.version <> v.version
    from versions v
    join public.billing_failed_events f using (event_id)
    where event_id = 'tap_5'
  ),
  'a changed row has another version'
);

rollback to savepoint later;

-- Resolved by hand.
reset role;
select pg_temp.store('tap_9', '{"n": 1}', provider => p)
from unnest(array['a', 'b']) as p;
select throws_like(
  format('select billing.resolve_failed_event(%L, %L, %L)', 'tap_4', a.reason, a.who),
  '%Give a reason and your name:%',
  format('reason %L and name %L are refused', a.reason, a.who)
)
from (
  values
    (E' \t', 'somebody'),
    (null, 'somebody'),
    ('a test', ' '),
    ('a test', null)
) as a (reason, who);
select billing.retry_failed_event('tap_4');
update billing.failed_events set retry_lease_id = gen_random_uuid() where event_id = 'tap_4';
select is(
  public.billing_resolve_failed_event('tap_4', 'a test of ours', 'somebody', of_provider => 'a'),
  'Resolved by hand. It opens again if the event fails again.',
  'with a reason and a name, an open failure is resolved'
);
select is(
  (
    select jsonb_build_array(
      resolved_at = now(),
      resolution,
      resolution_note,
      resolved_by,
      retry_requested_at,
      retry_lease_id,
      attempts,
      error
    )
    from pg_temp.failed('tap_4')
  ),
  '[true, "by hand", "a test of ours", "somebody", null, null, 2, "Unreadable"]',
  'resolving ends the request of a retry'
);
select is_empty(
  $$select event_id from billing.processed_events where event_id = 'tap_4'$$,
  'a failure that is resolved by hand is not applied'
);

select billing.resolve_failed_event('tap_9', 'a test', of_provider => 'b');
select set_eq(
  $$
    select provider, resolved_by
    from billing.failed_events
    where event_id = 'tap_9' and resolved_at is not null
  $$,
  $$values ('b', 'postgres')$$,
  'only the named provider''s failure is resolved, and the role stands for the name'
);

select pg_temp.store('tap_4', '{"n": 2}');
select is(
  pg_temp.fields('tap_4', '{resolved_at,resolution,resolution_note,resolved_by,attempts}'),
  '[null, null, null, null, 3]',
  'a failure that comes again opens its row without reason and name'
);

-- Opened again.
select pg_temp.store('closed_1', '{"n": 1}', error_code => 'apply_failed', provider => 'b');
select pg_temp.store('closed_' || i, '{"n": 1}') from generate_series(1, 5) as i;
update billing.failed_events
set
  resolved_at = now(),
  resolution = case event_id
    when 'closed_2' then 'ignored'
    when 'closed_4' then 'stale'
    else 'by hand'
  end,
  resolution_note = 'a test',
  resolved_by = 'somebody',
  scheduled_retries = 7,
  next_retry_at = null
where event_id like 'closed_%' and event_id <> 'closed_5';
update billing.failed_events set payload = null where event_id = 'closed_3';
select throws_ok(
  format('select billing.reopen_failed_event(%L, of_provider => %L)', e.id, e.provider),
  'P0001',
  e.message,
  e.message
)
from (
  values
    ('closed_4', 'a', 'No failure with the id closed_4 (provider a) has the state by hand or ignored.'),
    ('closed_5', null, 'No failure with the id closed_5 has the state by hand or ignored.')
) as e (id, provider, message);

select matches(
  billing.reopen_failed_event('closed_1', of_provider => 'b'),
  '^It is open again\. Retry it with: .*closed_1.*b.*;$',
  'a resolved failure of two providers is opened by naming one'
);
select is(
  pg_temp.fields('closed_1', '{resolution,resolved_at,resolution_note,resolved_by,error_code,next_retry_at,
    retry_requested_at,scheduled_retries}', 'b'),
  '[null, null, null, null, "apply_failed", null, null, 0]',
  'an opened failure has its error, and no retry'
);
select is(
  (pg_temp.failed('closed_1')).resolution,
  'by hand',
  'the other provider''s is not'
);

-- Only one is still resolved by hand. The other has no payload.
select billing.reopen_failed_event('closed_1'), billing.reopen_failed_event('closed_3');
update billing.failed_events
set error_code = 'account_unknown', customer_id = 'cus_o'
where event_id = 'closed_3';
insert into billing.customers (provider, customer_id, account_id) values ('a', 'cus_o', 'acc_o');
set constraints all immediate;
select is(
  (pg_temp.failed('closed_3')).retry_requested_at,
  null,
  'a failure without a payload is not requested'
);

set local role service_role;
select matches(
  public.billing_reopen_failed_event('closed_2', of_provider => 'a'),
  '^It is open again',
  'the console opens an ignored failure'
);
select matches(
  billing.retry_failed_event('closed_2'),
  '^Retry requested: 1\.',
  'an opened failure can be retried'
);

reset role;
select is(
  (select count(*)::integer from billing.open_failures where event_id like 'closed_%'),
  5,
  'all these failures are open but the stale one'
);

select * from finish();
rollback;
