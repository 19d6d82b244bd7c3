/*
 * claim_failed_events and settle_failed_events: requested retries go to one
 * worker at a time, in order of occurrence, and come back with an outcome.
 */
begin;
select plan(54);

create function pg_temp.file(
  p_event_id text, p_type text, p_subscription_id text, p_created integer, p_provider text default 'a'
)
returns void
language sql
as $$
  select public.record_failed_event(
    p_provider, p_event_id,
    jsonb_strip_nulls(jsonb_build_object(
      'id', p_event_id, 'type', p_type, 'created', p_created,
      'data', jsonb_build_object('object', case
        when p_type like 'customer.%' then jsonb_build_object('id', p_subscription_id)
        else jsonb_build_object('subscription', p_subscription_id)
      end)
    ))::text,
    'text', 'subscription_unknown', 'Failed', p_type
  );
$$;

create function pg_temp.claim(p_limit integer default 100, p_lease_seconds integer default 60)
returns text
language sql
as $$
  select string_agg(event_id, ', ') from public.claim_failed_events(p_limit, p_lease_seconds)
$$;

-- A lease that has ended: inside one transaction the clock stands still.
create function pg_temp.end_leases()
returns void
language sql
as $$
  update public.failed_events set retry_leased_until = now() - interval '1 second'
  where retry_leased_until is not null
$$;

create function pg_temp.settle(p_event_id text, p_outcome text, p_change jsonb default '{}')
returns integer
language sql
as $$
  select public.settle_failed_events(jsonb_build_array(
    jsonb_build_object(
      'provider', provider, 'event_id', event_id, 'lease_id', retry_lease_id, 'outcome', p_outcome,
      'error_code', case when p_outcome = 'failed' then 'event_invalid' end,
      'error', case when p_outcome = 'failed' then 'Still bad' end
    ) || p_change
  ))
  from public.failed_events where event_id = p_event_id
$$;

create function pg_temp.failed(p_event_id text)
returns public.failed_events
language sql
as $$
  select * from public.failed_events where event_id = p_event_id
$$;

-- What is claimed.

select pg_temp.file('tap_1', 'invoice.payment_failed', 'sub_1', 1800000001);
select is(pg_temp.claim(), null, 'nobody asked, nothing is claimed');
select public.retry_failed_events();
set local role service_role;
select results_eq(
  $$select provider, event_id, body::jsonb ->> 'id', body_encoding from public.claim_failed_events(10, 60)$$,
  $$values ('a', 'tap_1', 'tap_1', 'text')$$,
  'what was asked for is claimed with its body'
);
reset role;
select is(
  (pg_temp.failed('tap_1')).retry_leased_until, now() + interval '60 seconds',
  'it is leased for as long as was said'
);
select is(pg_temp.claim(), null, 'nobody else gets it until then');
select pg_temp.end_leases();
select is(pg_temp.claim(), 'tap_1', 'after that the next worker gets it');
select is((pg_temp.failed('tap_1')).attempts, 1, 'claiming it is no attempt');
select isnt(
  (pg_temp.failed('tap_1')).retry_lease_id,
  (select lease_id from (select pg_temp.end_leases()) as e, public.claim_failed_events(10, 60)),
  'each claim has a lease of its own'
);
update public.failed_events set resolved_at = now(), resolution = 'by hand' where event_id = 'tap_1';
select pg_temp.end_leases();
select is(pg_temp.claim(), null, 'what was resolved meanwhile is not claimed');

-- The body, as it was kept.

select public.record_failed_event('a', 'tap_2', '{"big": 12345678901234567890, "huge": 1e400}', 'text', 'x', 'x');
select public.record_failed_event('a', 'tap_2b', '{"n": 1e39}', 'text', 'x', 'x');
select public.record_failed_event('a', 'tap_3', '{"id": "\u0000"', 'text', 'x', 'x');
select public.record_failed_event('a', 'tap_4', 'gID/', 'base64', 'x', 'x');
select public.record_failed_event('a', 'tap_5', '', 'text', 'x', 'x');
select public.record_failed_event('a', 'tap_6', '"text"', 'text', 'x', 'x');
select public.record_failed_event('a', 'tap_7', 'null', 'text', 'x', 'x');
select public.retry_failed_events();
select results_eq(
  'select event_id, body, body_encoding from public.claim_failed_events(10, 60)',
  format(
    $$values
      ('tap_2', '{"big": 12345678901234567890, "huge": 1e400}', 'text'),
      ('tap_2b', '{"n": %s}', 'text'),
      ('tap_3', '{"id": "\u0000"', 'text'),
      ('tap_4', 'gID/', 'base64'),
      ('tap_5', '', 'text'),
      ('tap_6', '"text"', 'text'),
      ('tap_7', 'null', 'text')$$,
    '1' || repeat('0', 39)
  ),
  'JSON comes as JSON with every digit, text as it was, bytes as base64'
);
update public.failed_events set resolved_at = now(), resolution = 'by hand', retry_requested_at = null
where resolved_at is null;

-- Order.

select pg_temp.file(f.event_id, f.type, f.subscription_id, f.created)
from (
  values
    ('tap_e', 'invoice.payment_failed', 'sub_2', null),
    ('tap_d', 'customer.subscription.deleted', 'sub_2', 1800000030),
    ('tap_a', 'invoice.payment_failed', 'sub_2', 1800000010),
    ('tap_c', 'customer.subscription.updated', 'sub_2', 1800000020),
    ('tap_b', 'customer.subscription.created', 'sub_2', 1800000010)
) as f (event_id, type, subscription_id, created);
select public.retry_failed_events();
select is(
  pg_temp.claim(), 'tap_b, tap_a, tap_c, tap_d, tap_e',
  'by time, in one second creations first, without a time last'
);
select pg_temp.end_leases();
select is(pg_temp.claim(2), 'tap_b, tap_a', 'a claim of two has the first two');
select is(pg_temp.claim(2), null, 'another worker gets nothing of that subscription meanwhile');
select pg_temp.settle('tap_b', 'applied'), pg_temp.settle('tap_a', 'applied');
select is(pg_temp.claim(2), 'tap_c, tap_d', 'the next claim has the next two');
select pg_temp.settle('tap_c', 'applied'), pg_temp.settle('tap_d', 'applied');
select is(pg_temp.claim(2), 'tap_e', 'the last claim has the rest');
select pg_temp.settle('tap_e', 'applied');

select pg_temp.file(f.event_id, f.type, f.subscription_id, f.created, f.provider)
from (
  values
    ('tap_i', 'customer.subscription.created', 'sub_3', 1800000010, 'a'),
    ('tap_j', 'customer.subscription.created', 'sub_4', 1800000011, 'a'),
    ('tap_k', 'customer.subscription.updated', 'sub_3', 1800000012, 'a'),
    ('tap_l', 'invoice.payment_failed', 'sub_3', 1800000012, 'a'),
    ('tap_m', 'invoice.payment_failed', 'sub_3', null, 'a'),
    ('tap_n', 'invoice.payment_failed', 'sub_4', 1800000013, 'a'),
    ('tap_o', 'invoice.payment_failed', null, 1800000014, 'a')
) as f (event_id, type, subscription_id, created, provider);
select public.retry_failed_events();
select is(pg_temp.claim(1), 'tap_i', 'one worker has the creation of a subscription');
select is(
  pg_temp.claim(), 'tap_j, tap_n, tap_o',
  'the other gets what belongs to other subscriptions or to none, and nothing that comes after that creation'
);
select is(pg_temp.claim(), null, 'there is nothing else for anybody');
select is(pg_temp.settle('tap_i', 'failed'), 1, 'the creation fails again');
select is(pg_temp.claim(), 'tap_k, tap_l, tap_m', 'what waited for it is tried then');
update public.failed_events set resolved_at = now(), resolution = 'by hand', retry_requested_at = null
where resolved_at is null;

-- The limit.

select pg_temp.file(format('tap_many_%s', i), 'invoice.payment_failed', format('sub_%s', i % 100), 1800000000 + i)
from generate_series(1, 500) as i;
select public.retry_failed_events();
select is(
  (select count(*)::int from public.claim_failed_events(100, 60)), 100, 'of many, a claim has as many as it may'
);
select is(
  (select count(*)::int from public.failed_events where retry_leased_until > now() and resolved_at is null), 100,
  'and leases no more'
);
delete from public.failed_events where event_id like 'tap\_many\_%';

-- The limit in bytes.

-- JSON text of so many bytes.
create function pg_temp.file_bytes(p_event_id text, p_bytes integer)
returns void
language sql
as $$
  select public.record_failed_event('a', p_event_id, repeat('x', p_bytes - 2), 'text', 'x', 'x');
$$;

select pg_temp.file_bytes('tap_b1', 1024 * 1024), pg_temp.file_bytes('tap_b2', 3 * 1024 * 1024), pg_temp.file_bytes('tap_b3', 3),
  pg_temp.file_bytes('tap_b4', 4 * 1024 * 1024 + 1), pg_temp.file_bytes('tap_b5', 3);
select public.retry_failed_events();
select is(pg_temp.claim(), 'tap_b1, tap_b2', 'a claim has no more than 4 MiB');
select is(pg_temp.claim(), 'tap_b3', 'the next goes on where it ended, and takes nothing out of turn');
select is(pg_temp.claim(), 'tap_b4', 'a payload larger than that goes alone');
select is(pg_temp.claim(), 'tap_b5', 'what is behind it comes after it');
delete from public.failed_events where event_id like 'tap\_b%';

-- A control character is six bytes of JSON text.
select public.record_failed_event('a', 'tap_b6', repeat(chr(1), 700 * 1024), 'text', 'x', 'x');
select pg_temp.file_bytes('tap_b7', 3);
select public.retry_failed_events();
select is(pg_temp.claim(), 'tap_b6', 'bytes are counted as they leave');
delete from public.failed_events where event_id like 'tap\_b%';

select pg_temp.file_bytes('tap_b8', 16 * 1024 * 1024 + 1), pg_temp.file_bytes('tap_b9', 3);
select public.retry_failed_events();
select is(pg_temp.claim(), 'tap_b9', 'a payload that no worker can hold is passed over');
select is(
  (select jsonb_build_array(error_code, error, attempts, retry_requested_at, retry_lease_id) from pg_temp.failed('tap_b8')),
  '["body_too_large", "The payload has 16777217 bytes as JSON text, more than the worker can retry (16777216).", 2, null, null]',
  'and its retry has failed'
);
delete from public.failed_events where event_id like 'tap\_b%';

-- Outcomes.

select pg_temp.file(format('tap_1%s', i), 'invoice.payment_failed', format('sub_1%s', i), 1800000000 + i)
from generate_series(0, 9) as i;
select public.retry_failed_events();
select is(pg_temp.claim(), 'tap_10, tap_11, tap_12, tap_13, tap_14, tap_15, tap_16, tap_17, tap_18, tap_19', 'ten are claimed');
select is(pg_temp.settle('tap_1' || o.i, o.outcome), 1, format('%s settles', o.outcome))
from (
  values (0, 'applied'), (1, 'duplicate'), (2, 'stale'), (3, 'ignored')
) as o (i, outcome);
select results_eq(
  $$select event_id, resolution, resolved_at, attempts, error, num_nonnulls(retry_requested_at, retry_leased_until, retry_lease_id)
    from public.failed_events where event_id in ('tap_10', 'tap_11', 'tap_12', 'tap_13') order by event_id$$,
  $$values
    ('tap_10', 'applied', now(), 1, 'Failed', 0),
    ('tap_11', 'duplicate', now(), 1, 'Failed', 0),
    ('tap_12', 'stale', now(), 1, 'Failed', 0),
    ('tap_13', 'ignored', now(), 1, 'Failed', 0)$$,
  'each row is resolved with its outcome, and keeps what it had failed of'
);
update public.failed_events set last_failed_at = '2027-01-01T00:00:00Z' where event_id = 'tap_14';
select is(pg_temp.settle('tap_14', 'failed'), 1, 'a failure settles as well');
select is(
  (select jsonb_build_array(
      resolved_at, resolution, attempts, error_code, error, last_failed_at = now(), retry_requested_at,
      retry_leased_until, retry_lease_id
    ) from pg_temp.failed('tap_14')),
  '[null, null, 2, "event_invalid", "Still bad", true, null, null, null]',
  'its row stays open, with one attempt more, the new error, and no request'
);
select is(pg_temp.claim(), null, 'it is not tried again by itself');
select is(
  pg_temp.settle('tap_15', 'applied', '{"lease_id": "00000000-0000-0000-0000-000000000000"}'), 0,
  'a worker whose lease was taken over settles nothing'
);
select is((pg_temp.failed('tap_15')).resolved_at, null, 'the row waits for the worker that has it');
select is(
  pg_temp.settle('tap_15', 'applied', '{"provider": "b"}'), 0, 'nor does it settle another provider''s event'
);
update public.failed_events set resolved_at = '2027-01-01T00:00:00Z', resolution = 'by hand' where event_id = 'tap_16';
select is(pg_temp.settle('tap_16', 'failed'), 0, 'what was resolved meanwhile stays resolved');
select is(
  (select jsonb_build_array(resolution, attempts, resolved_at = '2027-01-01T00:00:00Z') from pg_temp.failed('tap_16')),
  '["by hand", 1, true]', 'and as it was resolved'
);
select is(
  public.settle_failed_events((
    select jsonb_agg(jsonb_build_object(
      'provider', provider, 'event_id', event_id, 'lease_id', retry_lease_id, 'outcome', 'applied'
    ))
    from public.failed_events where event_id in ('tap_17', 'tap_18')
  )),
  2, 'many settle in one call'
);
select is(public.settle_failed_events('[]'), 0, 'none settle in none');
select throws_ok(
  $$select pg_temp.settle('tap_19', 'lost')$$, '23514', null, 'an outcome that nobody knows is refused'
);

-- An event whose repaired payload has another id.

select pg_temp.file('sha256:1', 'customer.subscription.created', 'tap_sub', 1800000000);
select public.retry_failed_event('sha256:1');
select is(pg_temp.claim(), 'sha256:1', 'an event that is filed under a hash is claimed');
select is(
  (select outcome from public.apply_billing_events('[{
    "provider": "a", "event_id": "tap_20", "type": "customer.subscription.created", "subscription_id": "tap_sub",
    "account_id": "acc_1", "plan_id": "plan_1", "current_period_end": "2027-02-01T00:00:00Z"
  }]')),
  'applied', 'it is applied under the id that its repaired payload has'
);
select is((pg_temp.failed('sha256:1')).resolved_at, null, 'which settles no row');
select is(pg_temp.settle('sha256:1', 'applied'), 1, 'the worker settles it');
select is(
  public.record_failed_event('a', 'sha256:1', '{}', 'text', 'event_invalid', 'Failed'), false,
  'the old body, delivered again, is not filed again'
);
select is((pg_temp.failed('sha256:1')).resolution, 'applied', 'its row stays resolved');
select pg_temp.file('sha256:2', 'customer.subscription.created', 'tap_sub_2', 1800000000);
select public.retry_failed_event('sha256:2');
select is(pg_temp.claim(), 'sha256:2', 'another one is claimed');
select is(pg_temp.settle('sha256:2', 'failed'), 1, 'and fails again');
select is(
  public.record_failed_event('a', 'sha256:2', '{}', 'text', 'event_invalid', 'Failed'), true,
  'what failed again has no place in the ledger'
);

select * from finish();
rollback;
