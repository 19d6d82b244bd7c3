/*
 * A repaired payload is applied, or its row stays open: neither the old body,
 * delivered again, nor a worker that has claimed the old body takes its place.
 */
begin;
select plan(35);

create function pg_temp.event(p_event_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'customer.subscription.created',
    'subscription_id', 'sub_' || p_event_id, 'account_id', 'acc_old', 'plan_id', 'plan_1',
    'current_period_end', '2027-02-01T00:00:00Z'
  ) || p_fields
$$;

create function pg_temp.apply(variadic p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events(to_jsonb(p_events)) as a
$$;

create function pg_temp.file(p_event_id text)
returns boolean
language sql
as $$
  select public.record_failed_event('a', p_event_id, '{"n": "old"}', 'text', 'subscription_unknown', 'Failed', 'x')
$$;

create function pg_temp.repair(p_event_id text)
returns void
language sql
as $$
  update public.failed_events set payload = '{"n": "repaired"}' where event_id = p_event_id
$$;

-- Claims the one retry that is wanted; what a worker then says of its event.
create function pg_temp.claim()
returns jsonb
language sql
as $$
  select jsonb_build_object('retry', jsonb_build_object('event_id', event_id, 'lease_id', lease_id))
  from public.claim_failed_events(1, 60)
$$;

create function pg_temp.row_of(p_event_id text)
returns jsonb
language sql
as $$
  select jsonb_build_array(payload ->> 'n', resolution, retry_requested_at is not null)
  from public.failed_events where event_id = p_event_id and provider = 'a'
$$;

create function pg_temp.ledger(p_event_id text)
returns integer
language sql
as $$
  select count(*)::int from public.processed_events where event_id = p_event_id
$$;

-- The provider delivers the old body again.

select pg_temp.file('tap_1');
select pg_temp.repair('tap_1');
select is(pg_temp.apply(pg_temp.event('tap_1')), 'failed BW004', 'the old body of a repaired event is not applied');
select is(
  (select error from public.apply_billing_events(jsonb_build_array(pg_temp.event('tap_1')))),
  'Event tap_1 was repaired in failed_events and waits for its retry.', 'the message says what it waits for'
);
select is(pg_temp.ledger('tap_1'), 0, 'it takes no place in the ledger');
select is(pg_temp.row_of('tap_1'), '["repaired", null, false]', 'its row stays open');
select is(
  pg_temp.apply(pg_temp.event('tap_1'), pg_temp.event('tap_2', '{"subscription_id": "sub_tap_1"}')),
  'failed BW004, applied', 'another event of the subscription is applied'
);
select is(
  pg_temp.apply(pg_temp.event('tap_1', '{"provider": "b", "subscription_id": "sub_b"}')), 'applied',
  'so is the other provider''s event of that id'
);

select is(
  public.record_failed_event('a', 'tap_1', '{"n": "old"}', 'text', 'repair_pending', 'Waits', 'x'), true, 'its failure is filed'
);
select is(
  (select jsonb_build_array(error_code, error, attempts) from public.failed_events where event_id = 'tap_1'),
  '["subscription_unknown", "Failed", 2]', 'as one attempt more of what it had failed of'
);

select public.retry_failed_event('tap_1', of_provider => 'a');
create temporary table claimed as select pg_temp.claim() as retry;
select is(
  pg_temp.apply(pg_temp.event('tap_1')), 'failed BW004', 'it is not applied while a worker has the repaired one either'
);
select is(
  pg_temp.apply(pg_temp.event('tap_1', (select retry from claimed))), 'stale', 'the worker applies the repaired one'
);
select is(pg_temp.row_of('tap_1'), '["repaired", "stale", false]', 'which resolves the row');
select is(pg_temp.apply(pg_temp.event('tap_1')), 'duplicate', 'after that the old body is a duplicate');

-- A worker has the old body when it is repaired.

select pg_temp.file('tap_3');
select public.retry_failed_event('tap_3');
truncate claimed;
insert into claimed select pg_temp.claim();
select pg_temp.repair('tap_3');
select is(
  pg_temp.apply(pg_temp.event('tap_3', (select retry from claimed))), 'failed BW004', 'the worker cannot apply the old body'
);
select is(pg_temp.row_of('tap_3'), '["repaired", null, true]', 'the row stays open, and its retry wanted');
truncate claimed;
insert into claimed select pg_temp.claim();
select is(
  pg_temp.apply(pg_temp.event('tap_3', (select retry from claimed))), 'applied', 'the next claim applies the repaired one'
);

-- A repaired payload has another id than its row.

select pg_temp.file('sha256:1');
select pg_temp.repair('sha256:1');
select public.retry_failed_event('sha256:1');
truncate claimed;
insert into claimed select pg_temp.claim();
update public.failed_events set payload = '{"n": "again"}' where event_id = 'sha256:1';
select is(
  pg_temp.apply(pg_temp.event('tap_4', (select retry from claimed))), 'failed BW004',
  'repaired once more, its row ends that claim as well'
);
select is(
  public.settle_failed_events(jsonb_build_array(
    (select retry -> 'retry' from claimed) || '{"provider": "a", "outcome": "duplicate"}'
  )),
  0, 'whose outcome settles nothing'
);
select is(pg_temp.ledger('sha256:1'), 0, 'and takes no place in the ledger');
truncate claimed;
insert into claimed select pg_temp.claim();
select is(
  pg_temp.apply(pg_temp.event('tap_4', (select retry from claimed))), 'applied', 'the next claim applies it under its own id'
);
select is(pg_temp.row_of('sha256:1'), '["again", "applied", false]', 'which resolves the row that it is filed under');
select is(
  public.settle_failed_events(jsonb_build_array(
    (select retry -> 'retry' from claimed) || '{"provider": "a", "outcome": "applied"}'
  )),
  0, 'so there is nothing left to settle'
);
select is(pg_temp.ledger('sha256:1'), 1, 'but the place in the ledger of what it is filed under');

-- A worker has an event that is resolved by hand, or that another one claims.

select pg_temp.file('tap_5');
select public.retry_failed_event('tap_5');
truncate claimed;
insert into claimed select pg_temp.claim();
select public.resolve_failed_event('tap_5', 'a test', 'somebody');
select is(
  pg_temp.apply(pg_temp.event('tap_5', (select retry from claimed))), 'failed BW004', 'what was resolved by hand is not applied'
);
select is(pg_temp.row_of('tap_5'), '["old", "by hand", false]', 'and stays resolved');
select pg_temp.file('tap_6');
select public.retry_failed_event('tap_6');
truncate claimed;
insert into claimed select pg_temp.claim();
update public.failed_events set retry_leased_until = now() where event_id = 'tap_6';
select isnt(pg_temp.claim(), (select retry from claimed), 'after a lease another worker claims the event');
select is(
  pg_temp.apply(pg_temp.event('tap_6', (select retry from claimed))), 'failed BW004', 'the first applies it no more'
);

-- An event that nobody repaired.

select pg_temp.file('tap_7');
select public.retry_failed_event('tap_7');
select is(pg_temp.apply(pg_temp.event('tap_7')), 'applied', 'the provider''s own redelivery of an open failure is applied');
select is(pg_temp.row_of('tap_7'), '["old", "applied", false]', 'and resolves it');
select is(pg_temp.claim(), null, 'nothing is left to retry');

-- An event that fails again right after it was resolved.

create function pg_temp.fails_again(p_event_id text)
returns text
language plpgsql
as $$
begin
  delete from public.processed_events where event_id = p_event_id;
  perform pg_temp.file(p_event_id);
  perform public.retry_failed_event(p_event_id);
  return (select event_id from public.claim_failed_events(1, 60));
end;
$$;

create function pg_temp.lease(p_event_id text)
returns integer
language sql
as $$
  select num_nonnulls(retry_lease_id, retry_leased_until) from public.failed_events where event_id = p_event_id
$$;

select pg_temp.file('tap_8');
select public.retry_failed_event('tap_8');
select is(
  pg_temp.apply(pg_temp.event('tap_8', pg_temp.claim())), 'applied', 'a worker applies what it has claimed'
);
select is(pg_temp.lease('tap_8'), 0, 'which ends its lease');
select is(pg_temp.fails_again('tap_8'), 'tap_8', 'an event that fails again is claimed at once');
insert into public.processed_events (provider, event_id, type) values ('a', 'tap_8', 'x');
select is(pg_temp.apply(pg_temp.event('tap_8')), 'duplicate', 'a duplicate resolves it');
select is(pg_temp.fails_again('tap_8'), 'tap_8', 'after which it can be claimed as well');
select public.resolve_failed_event('tap_8', 'a test', 'somebody');
select is(pg_temp.fails_again('tap_8'), 'tap_8', 'and after it was resolved by hand');

select * from finish();
rollback;
