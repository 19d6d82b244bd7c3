/*
 * Retries: what a person requests, what a run of the worker claims and in which order, and
 * what becomes of it. A repaired payload is never lost: neither the old body, delivered again,
 * nor a run that has claimed the old body takes its place.
 */
begin;
select plan(67);
truncate billing.failed_events, billing.leases;
analyze billing.failed_events;

create function pg_temp.fail(
  event_id text,
  kind text default 'payment_failed',
  subscription_id text default null,
  second integer default 0,
  error_code text default 'subscription_unknown',
  provider text default 'a'
)
returns text language sql as $$
  select pg_temp.file(event_id, error_code, subscription_id, jsonb_build_object(
    'provider', provider,
    'body', '{"n": "old"}',
    'type', 'provider.' || kind,
    'kind', kind,
    'occurred_at', to_timestamp(1800000000 + second)
  ))
$$;

create function pg_temp.store(event_id text, body text, encoding text default 'text')
returns text language sql
return pg_temp.file(event_id, fields => jsonb_build_object('body', body, 'body_encoding', encoding));

create function pg_temp.claim(number integer, batch_size integer default 100)
returns text language sql as $$
  select string_agg(event_id, ', ')
  from public.billing_claim_failed_events(pg_temp.run(number), batch_size)
$$;

create function pg_temp.settle(
  number integer,
  event_id text,
  outcome text,
  fields jsonb default '{}'
)
returns integer language sql as $$
  select public.billing_settle_failed_events(
    pg_temp.run(number),
    jsonb_build_array(
      jsonb_build_object(
        'provider', 'a',
        'event_id', event_id,
        'outcome', outcome,
        'error_code', case when outcome = 'failed' then 'event_invalid' end,
        'error', case when outcome = 'failed' then 'Still bad' end
      ) || fields
    )
  )
$$;

-- A creation; if a run applies it, `number` is the run, and row_id the row that it has claimed.
create function pg_temp.deliver(event_id text, number integer default null, row_id text default null)
returns text language sql
return pg_temp.apply(pg_temp.event(event_id, 'creation', 'sub_' || event_id, null, case
  when number is null then '{}'
  else jsonb_build_object('retry', jsonb_build_object(
    'event_id', coalesce(row_id, event_id),
    'lease_id', pg_temp.run(number)
  ))
end));

create function pg_temp.repair(event_id text, n text default 'repaired')
returns void language sql as $$
  update billing.failed_events f
  set payload = jsonb_build_object('n', n)
  where f.event_id = repair.event_id
$$;

create function pg_temp.row_of(event_id text)
returns text language sql as $$
  select concat_ws(
    ' ',
    payload ->> 'n',
    coalesce(resolution, 'open'),
    case when retry_requested_at is not null then 'requested' end
  )
  from pg_temp.failed(event_id)
$$;

create function pg_temp.in_ledger(event_id text)
returns boolean language sql as $$
  select exists (select from billing.processed_events p where p.event_id = in_ledger.event_id)
$$;

-- Requests.
create function pg_temp.requests()
returns text language sql as $$
  select string_agg(provider || ' ' || event_id, ', ' order by event_id, provider)
  from billing.failed_events
  where retry_requested_at is not null
$$;

create function pg_temp.request(arguments text default '')
returns text language plpgsql as $$
begin
  update billing.failed_events set retry_requested_at = null;
  execute format('select billing.retry_failed_events(%s)', arguments);
  return pg_temp.requests();
end;
$$;

select pg_temp.fail(event_id, kind, error_code => error_code, provider => provider)
from (
  values
    ('a', 'request_1', 'creation', 'event_invalid'),
    ('a', 'request_2', 'update', 'subscription_unknown'),
    ('a', 'request_3', 'payment_failed', 'subscription_unknown'),
    ('a', 'request_5', 'payment_failed', 'apply_failed'),
    ('b', 'request_5', 'payment_failed', 'apply_failed'),
    ('a', 'request_6', 'payment_failed', 'apply_failed'),
    ('a', 'request_7', 'payment_failed', 'apply_failed'),
    ('b', 'request_7', 'payment_failed', 'apply_failed'),
    ('a', 'request_8', 'payment_failed', 'apply_failed')
) as f (provider, event_id, kind, error_code);
update billing.failed_events
set last_failed_at = '2027-01-01T10:00:00Z'::timestamptz + make_interval(
  hours => right(event_id, 1)::integer
);
update billing.failed_events
set resolved_at = now(), resolution = 'applied'
where event_id = 'request_6' or event_id = 'request_7' and provider = 'a';
update billing.failed_events set payload = null where event_id = 'request_8';

select throws_ok(
  format('select billing.retry_failed_event(%L)', e.event_id),
  'P0001',
  e.message,
  format('a retry of %L is refused', e.event_id)
)
from (
  values
    ('none', 'No failure with the id none has the state open.'),
    (null, 'No failure with the id <NULL> has the state open.'),
    ('request_5', 'Providers a and b both have a failed event with the id request_5: add of_provider.'),
    ('request_6', 'No failure with the id request_6 has the state open.'),
    ('request_8', 'Cannot retry request_8: its payload was pruned.')
) as e (event_id, message);
select throws_ok(
  $$select billing.retry_failed_event('request_1', of_provider => 'b')$$,
  'P0001',
  'No failure with the id request_1 (provider b) has the state open.',
  'a retry of the wrong provider is refused'
);

select matches(
  billing.retry_failed_event('request_1'),
  '^Retry requested: 1\. The worker retries it at its next run\.$',
  'a retry of an open failure is requested'
);
select is(pg_temp.requests(), 'a request_1', 'no other is');
select is(
  pg_temp.fields('request_1', '{attempts,resolved_at,error_code}'),
  '[1, null, "event_invalid"]',
  'it counts no attempt'
);

update billing.failed_events
set retry_requested_at = '2027-01-01T00:00:00Z'
where event_id = 'request_1';
select billing.retry_failed_event('request_1');
select is(
  (pg_temp.failed('request_1')).retry_requested_at,
  '2027-01-01T00:00:00Z'::timestamptz,
  'a second request keeps the time of the first'
);

select matches(
  billing.retry_failed_event('request_5', of_provider => 'b')
    || billing.retry_failed_event('request_7')
    || pg_temp.requests(),
  '1\..*1\..*\.a request_1, b request_5, b request_7$',
  'a provider may be named, or is the one with an open failure'
);

select matches(
  billing.retry_failed_events() || pg_temp.requests(),
  '^Retry requested: 6\..*\.a request_1, a request_2, a request_3, a request_5, b request_5, b request_7$',
  'a retry of all requests open failures with a payload, and counts them'
);
select is(
  (pg_temp.failed('request_1')).retry_requested_at,
  '2027-01-01T00:00:00Z'::timestamptz,
  'it keeps earlier requests'
);

select is(
  billing.retry_failed_events(of_type => 'nothing'),
  'No open failure matches: nothing to retry.',
  'an answer says that no failure matches'
);
select is(pg_temp.request(c.condition), c.requested, c.condition)
from (
  values
    ($$of_type => 'provider.payment_failed'$$, 'a request_3, a request_5, b request_5, b request_7'),
    ($$of_error_code => 'subscription_unknown'$$, 'a request_2, a request_3'),
    ($$of_type => 'provider.payment_failed', of_error_code => 'subscription_unknown'$$, 'a request_3'),
    ($$failed_since => '2027-01-01T12:00:00Z', failed_until => '2027-01-01T15:00:00Z'$$, 'a request_2, a request_3')
) as c (condition, requested);

select pg_temp.request();
select pg_temp.deliver('request_2');
select is(
  pg_temp.row_of('request_2'),
  'old applied',
  'a delivery that is applied ends the request'
);

select pg_temp.fail('request_3');
select is(
  pg_temp.row_of('request_3'),
  'old open requested',
  'a delivery that fails leaves the request'
);

-- A run holds the queue.
truncate billing.failed_events;
select pg_temp.fail('lease_1', subscription_id => 'sub_1');
set local role service_role;
select is(pg_temp.claim(1), null, 'nothing is claimed without a request');

select public.billing_retry_failed_events();
select is(pg_temp.claim(2), null, 'a second run claims nothing');
select results_eq(
  $$
    select provider, event_id, body::jsonb, body_encoding
    from public.billing_claim_failed_events(pg_temp.run(1), 10)
  $$,
  $$values ('a', 'lease_1', '{"n": "old"}'::jsonb, 'json')$$,
  'a requested failure is claimed with its body'
);
select is(
  pg_temp.fields('lease_1', '{attempts,retry_lease_id}'),
  jsonb_build_array(1, pg_temp.run(1)),
  'a claim counts no attempt'
);
select is(pg_temp.claim(1), null, 'a run does not claim a row twice');

select pg_temp.end_lease();
select is(pg_temp.claim(2), 'lease_1', 'another run claims the row after the lease');
select is(pg_temp.settle(1, 'lease_1', 'failed'), 0, 'the first settles nothing');
select is(pg_temp.deliver('lease_1', 1), 'failed BW004', 'nor does it apply the event');
select is(pg_temp.deliver('lease_1', 2), 'applied', 'the other does');
select ok(
  public.billing_release_lease('retries', pg_temp.run(2), false),
  'a run goes on if another one has asked for the queue'
);
select is((pg_temp.failed('lease_1')).retry_lease_id, null, 'a resolved row has no claim');

reset role;

-- The body, as it was stored.
truncate billing.failed_events, billing.leases;
select pg_temp.store('body_' || place, body, encoding)
from (
  values
    (1, '{"big": 12345678901234567890, "huge": 1e400}', 'text'),
    (2, '{"n": 1e39}', 'text'),
    (4, 'gID/', 'base64'),
    (7, 'null', 'text')
) as b (place, body, encoding);
select billing.retry_failed_events();
select set_eq(
  $$
    select event_id, body, body_encoding
    from public.billing_claim_failed_events(pg_temp.run(3), 10)
  $$,
  format(
    $$
      values
        ('body_1', '{"big": 12345678901234567890, "huge": 1e400}', 'text'),
        ('body_2', '{"n": %s}', 'json'),
        ('body_4', 'gID/', 'base64'),
        ('body_7', 'null', 'json')
    $$,
    '1' || repeat('0', 39)
  ),
  'a claimed body has every digit, text and bytes as they were'
);

-- The order.
truncate billing.failed_events;
select pg_temp.fail(event_id, kind, 'sub_2', second)
from (
  values
    ('e', 'payment_failed', null),
    ('d', 'deletion', 30),
    ('a', 'payment_failed', 10),
    ('c', 'update', 20),
    ('b', 'creation', 10)
) as f (event_id, kind, second);
update billing.failed_events
set first_failed_at = now() - interval '1 h', event_id = 'z'
where event_id = 'c';
select pg_temp.fail('c', 'update', 'sub_2', 20);
select billing.retry_failed_events();
savepoint all_requested;
select is(
  pg_temp.claim(3),
  'b, a, z, c, d, e',
  'a claim is ordered by time, then creations and earlier failures; without a time last'
);

rollback to savepoint all_requested;
select is(pg_temp.claim(3, 2), 'b, a', 'a claim takes at most its limit');

select is(pg_temp.claim(3, 2), null, 'later events of the subscription wait');

select pg_temp.settle(3, 'b', 'failed'), pg_temp.settle(3, 'a', 'ignored');
select is(pg_temp.claim(3, 2), 'z, c', 'until those are settled');

truncate billing.failed_events;
select pg_temp.fail(event_id, kind, subscription_id, second)
from (
  values
    ('i', 'creation', 'sub_3', 10),
    ('j', 'creation', 'sub_4', 11),
    ('k', 'update', 'sub_3', 12),
    ('l', 'payment_failed', 'sub_4', 13),
    ('m', 'payment_failed', null, 14),
    ('n', 'payment_failed', 'sub_3', null)
) as f (event_id, kind, subscription_id, second);
select billing.retry_failed_events();
select pg_temp.claim(3, 1);
select is(
  pg_temp.claim(3),
  'j, l, m',
  'events of other subscriptions, or of none, are claimed meanwhile'
);

select pg_temp.end_lease();
select is(
  (
    select string_agg(
      coalesce(pg_temp.claim(4), '-'),
      ', ' || pg_temp.settle(4, i, 'ignored') || ', '
    )
    from unnest(array['', 'i', 'j', 'k', 'l', 'm']) as i
  ),
  'i, 1, j, 1, k, n, 1, l, 1, m, 1, -',
  'a new run gets what was left one by one, and the rest together'
);

-- More events of one subscription are held back than a claim looks at.
truncate billing.failed_events, billing.leases;
select pg_temp.fail('queued_' || i, 'update', 'sub_q', i) from generate_series(10, 40) as i;
select pg_temp.fail('other', 'update', 'sub_other', 99), billing.retry_failed_events();
select is(
  (select array_agg(pg_temp.claim(4, 1)) from generate_series(1, 3)),
  '{queued_10,other,null}',
  'many waiting events hold up no other subscription'
);

-- A batch has at most 4 MiB of JSON text.
truncate billing.failed_events;
select
  pg_temp.store('size_1', repeat('x', 1048574)),
  pg_temp.store('size_2', repeat('x', 3 * 1048576 - 2)),
  pg_temp.store('size_3', 'x'),
  pg_temp.store('size_4', repeat('x', 4 * 1048576 - 1)),
  -- A control character is six bytes.
  pg_temp.store('size_5', repeat(chr(1), 700 * 1024)),
  pg_temp.store('size_6', 'x');
select billing.retry_failed_events();
select is(
  (select array_agg(pg_temp.claim(4)) from generate_series(1, 5)),
  array['size_1, size_2', 'size_3', 'size_4', 'size_5', 'size_6'],
  'larger events are claimed alone, in their order'
);

-- Outcomes.
truncate billing.failed_events;
select pg_temp.fail('outcome_' || i, subscription_id => 'sub_' || i)
from generate_series(1, 9) as i;
update billing.failed_events set last_failed_at = '2027-01-01T00:00:00Z';
select billing.retry_failed_events();
select pg_temp.claim(4);

set local role service_role;
select is(
  public.billing_settle_failed_events(
    pg_temp.run(4),
    '[
      {"provider": "a", "event_id": "outcome_1", "outcome": "applied"},
      {"provider": "a", "event_id": "outcome_2", "outcome": "duplicate"},
      {"provider": "a", "event_id": "outcome_3", "outcome": "stale"},
      {"provider": "a", "event_id": "outcome_4", "outcome": "ignored"},
      {"provider": "b", "event_id": "outcome_9", "outcome": "applied"},
      {"provider": "a", "event_id": "none", "outcome": "applied"},
      {
        "provider": "a",
        "event_id": "outcome_5",
        "outcome": "failed",
        "error_code": "event_invalid",
        "error": "Still bad",
        "type": "t",
        "kind": "creation",
        "subscription_id": "sub_new",
        "customer_id": "cus_new",
        "account_id": "acc_new",
        "occurred_at": "2027-01-01T00:00:00Z"
      }
    ]'
  ),
  5,
  'a call settles only claimed rows'
);

reset role;
select set_eq(
  $$
    select
      event_id,
      resolution,
      resolved_at,
      attempts,
      error_code || ' ' || error as error,
      last_failed_at = now() as has_failed,
      num_nonnulls(retry_requested_at, retry_lease_id, next_retry_at) as requested
    from billing.failed_events
    where event_id between 'outcome_1' and 'outcome_5'
  $$,
  $$
    values
      ('outcome_1', 'applied', now(), 1, 'subscription_unknown Failed', false, 0),
      ('outcome_2', 'duplicate', now(), 1, 'subscription_unknown Failed', false, 0),
      ('outcome_3', 'stale', now(), 1, 'subscription_unknown Failed', false, 0),
      ('outcome_4', 'ignored', now(), 1, 'subscription_unknown Failed', false, 0),
      ('outcome_5', null, null, 2, 'event_invalid Still bad', true, 0)
  $$,
  'a settled row is resolved, or failed without a retry'
);
select is(
  pg_temp.fields('outcome_5', '{type,kind,subscription_id,customer_id,account_id,occurred_at}'),
  '["t", "creation", "sub_new", "cus_new", "acc_new", "2027-01-01T00:00:00+00:00"]',
  'a settled failure stores what was read of the payload'
);
select is(
  pg_temp.fields('outcome_1', '{type,kind,subscription_id}'),
  '["provider.payment_failed", "payment_failed", "sub_1"]',
  'a settled failure keeps what was not read'
);
select is(
  (select array_agg(pg_temp.in_ledger('outcome_' || i) order by i) from generate_series(1, 5) as i),
  array[true, true, true, false, false],
  'settled events that were applied are in the ledger'
);

update billing.failed_events
set resolved_at = '2027-01-01T00:00:00Z', resolution = 'by hand'
where event_id = 'outcome_6';
select is(pg_temp.settle(4, 'outcome_6', 'failed'), 0, 'a resolved row is not settled');

select pg_temp.settle(4, 'outcome_7', 'failed', '{"error_code": null, "error": null}');
select is(
  (select concat_ws(' ', error_code, error, attempts) from pg_temp.failed('outcome_7')),
  'subscription_unknown Failed 2',
  'a failure that is settled without a message keeps its own'
);

-- The provider delivers the old body of a repaired event again.
truncate billing.failed_events;
select pg_temp.fail('repair_1'), pg_temp.repair('repair_1'), billing.retry_failed_event('repair_1');
select results_eq(
  $$
    select error_code, error
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.event('repair_1', 'creation', 's', null) || '{"place": 1}'
    ))
  $$,
  $$values ('BW004', 'Event repair_1 was repaired in failed_events and waits for its retry.')$$,
  'the old body of a repaired failure is not applied'
);
select ok(
  not pg_temp.in_ledger('repair_1') and pg_temp.row_of('repair_1') = 'repaired open requested',
  'the repair and its request stay'
);
select is(
  pg_temp.apply(
    pg_temp.event('repair_0', 'creation', 'other_1', null),
    pg_temp.event('repair_1', 'creation', 'other_2', null),
    pg_temp.event('repair_1', 'creation', 'other_3', null, '{"provider": "b"}')
  ),
  'applied, failed BW004, applied',
  'other events are applied, even with that id of the other provider'
);
select pg_temp.claim(4);
select is(
  pg_temp.deliver('repair_1'),
  'failed BW004',
  'a delivery does not apply the old body of a claimed repair'
);
select is(
  pg_temp.deliver('repair_1', 4) || ': ' || pg_temp.row_of('repair_1'),
  'applied: repaired applied',
  'the run applies the repair, which resolves the row'
);
select is(pg_temp.deliver('repair_1'), 'duplicate', 'after the repair, the old body is a duplicate');

-- A run has claimed the old body when it is repaired.
select pg_temp.fail('repair_2'), billing.retry_failed_event('repair_2');
select pg_temp.claim(4);
select pg_temp.repair('repair_2');
select is(
  concat_ws(
    ' ',
    pg_temp.deliver('repair_2', 4),
    pg_temp.settle(4, 'repair_2', 'failed'),
    pg_temp.settle(4, 'repair_2', 'duplicate')
  ),
  'failed BW004 0 0',
  'a run neither applies nor settles what was repaired meanwhile'
);
select ok(
  not pg_temp.in_ledger('repair_2') and pg_temp.row_of('repair_2') = 'repaired open requested',
  'the repair stays requested'
);
select is(
  pg_temp.claim(4) || ': ' || pg_temp.deliver('repair_2', 4),
  'repair_2: applied',
  'the same run may claim and apply the repair'
);

-- A repaired payload has another id than its row.
select
  pg_temp.fail('sha256:1'),
  pg_temp.fail('repair_3'),
  pg_temp.repair('sha256:1'),
  billing.retry_failed_event('sha256:1');
select pg_temp.claim(4);
select pg_temp.repair('sha256:1', 'again');
select is(
  pg_temp.deliver('repair_3', 4, 'sha256:1'),
  'failed BW004',
  'another repair ends the claim'
);

select pg_temp.claim(4);
select is(
  pg_temp.deliver('repair_3', 4, 'sha256:1')
    || ': '
    || pg_temp.row_of('sha256:1')
    || ', '
    || pg_temp.row_of('repair_3'),
  'applied: again applied, old applied',
  'a repair that has another id resolves the rows of both ids'
);

select pg_temp.settle(4, 'sha256:1', 'applied');
select ok(pg_temp.in_ledger('sha256:1'), 'settling puts the id of the row into the ledger');

-- A run has claimed an event that is resolved, or not repaired at all.
select pg_temp.fail('repair_4'), pg_temp.fail('repair_5'), billing.retry_failed_events();
select pg_temp.claim(4);
select billing.resolve_failed_event('repair_4', 'a test', 'somebody');
select is(
  pg_temp.deliver('repair_4', 4) || ': ' || pg_temp.row_of('repair_4'),
  'failed BW004: old by hand',
  'a failure that was resolved by hand is not applied, and stays resolved'
);
select is(
  pg_temp.deliver('repair_5') || ', ' || pg_temp.deliver('repair_5', 4),
  'applied, duplicate',
  'a delivery applies a claimed failure without a repair, and the run finds a duplicate'
);

-- An event that fails again right after it was resolved can be claimed at once.
select pg_temp.fail('repair_6'), billing.retry_failed_event('repair_6'), pg_temp.claim(4);
select pg_temp.deliver('repair_6', 4);
select is_empty(
  $$
    select event_id
    from billing.failed_events
    where resolution is not null
      and num_nonnulls(retry_requested_at, retry_lease_id, next_retry_at) > 0
  $$,
  'a resolved failure has no retry'
);

delete from billing.processed_events where event_id = 'repair_6';
select pg_temp.fail('repair_6'), billing.retry_failed_event('repair_6');
select is(pg_temp.claim(4), 'repair_6', 'a failure that opens again can be claimed');

select pg_temp.fail('repair_6');
select is(pg_temp.deliver('repair_6', 4), 'stale', 'a delivery that fails leaves the claim');

-- Events with a handler: what a run has no time for comes again, and what may be slow last.
truncate billing.failed_events, billing.leases;
select
  pg_temp.fail('handler_1', second => 1, error_code => 'apply_failed'),
  pg_temp.fail('handler_2', second => 2, error_code => 'handler_missing'),
  pg_temp.fail('handler_3', second => 3),
  pg_temp.fail('handler_4', subscription_id => 's', second => 4, error_code => 'apply_failed'),
  pg_temp.fail('handler_5', subscription_id => 's', second => 5),
  pg_temp.fail('handler_6', second => 6),
  billing.retry_failed_events();
select is(
  pg_temp.claim(4),
  'handler_3, handler_6, handler_1, handler_2, handler_4, handler_5',
  'failures of handlers are claimed last, with their subscriptions'
);

select is(
  concat_ws(
    ' ',
    pg_temp.settle(4, 'handler_1', 'untried'),
    pg_temp.settle(5, 'handler_2', 'untried'),
    pg_temp.claim(4)
  ),
  '0 0 handler_1',
  'an untried failure is not settled, and claimed again'
);
select is(
  (select (attempts, scheduled_retries)::text from pg_temp.failed('handler_1')),
  '(1,0)',
  'it counts no attempt'
);

select * from finish();
rollback;
