/*
 * prune_billing_tables: what is old goes, a batch at a time; what is open or
 * owed stays, whatever its age.
 */
begin;
select plan(32);

create function pg_temp.days_ago(p_days integer)
returns timestamptz
language sql
as $$
  select now() - make_interval(days => p_days)
$$;

create function pg_temp.ledger(p_event_id text, p_days integer)
returns void
language sql
as $$
  insert into public.processed_events (provider, event_id, type, processed_at)
  values ('a', p_event_id, 'invoice.payment_failed', pg_temp.days_ago(p_days))
$$;

create function pg_temp.failure(p_event_id text, p_failed_days integer, p_resolved_days integer default null)
returns void
language sql
as $$
  insert into public.failed_events (
    provider, event_id, payload, original_payload, payload_encoding, error_code, error,
    first_failed_at, last_failed_at, resolved_at, resolution
  )
  values (
    'a', p_event_id, '{"n": 2}', '{"n": 1}', 'json', 'event_invalid', 'Failed',
    pg_temp.days_ago(p_failed_days), pg_temp.days_ago(p_failed_days), pg_temp.days_ago(p_resolved_days),
    case when p_resolved_days is not null then 'applied' end
  )
$$;

create function pg_temp.notification(p_event_id text, p_status text, p_days integer)
returns void
language sql
as $$
  insert into public.notifications (provider, event_id, account_id, subscription_id, status, created_at)
  values ('a', p_event_id, 'acc_1', 'tap_sub', p_status, pg_temp.days_ago(p_days))
$$;

create function pg_temp.prune(p_arguments text default '')
returns text
language plpgsql
as $$
declare
  pruned record;
begin
  execute format('select * from public.prune_billing_tables(%s)', p_arguments) into strict pruned;
  return concat_ws(' ', pruned.ledger_rows, pruned.payloads, pruned.failures, pruned.notifications);
end;
$$;

-- Empty tables. The test's own rows are the only ones that are old.

select is(pg_temp.prune(), '0 0 0 0', 'where nothing is old nothing goes, and it says so');

-- The ledger.

select pg_temp.ledger('tap_1', 91), pg_temp.ledger('tap_2', 89), pg_temp.ledger('tap_3', 0);
select is(pg_temp.prune(), '1 0 0 0', 'of the ledger goes what is older than 90 days');
select set_eq(
  $$select event_id from public.processed_events where event_id like 'tap\_%'$$, array['tap_2', 'tap_3'],
  'and the rest of it stays'
);
insert into public.subscriptions (id, provider, account_id, status, plan_id, current_period_end)
values ('tap_sub', 'a', 'acc_1', 'active', 'plan_1', now());
select is(
  (select outcome from public.apply_billing_events('[{
    "provider": "a", "event_id": "tap_2", "type": "invoice.payment_failed", "subscription_id": "tap_sub"
  }]')),
  'duplicate', 'an event that the ledger still has is a duplicate after 89 days'
);
select is_empty($$select id from public.notifications where event_id = 'tap_2'$$, 'and owes nothing a second time');

delete from public.processed_events where event_id like 'tap\_%';

-- Payloads of settled failures, then their rows.

select
  pg_temp.failure('tap_4', 200), pg_temp.failure('tap_5', 200, 29), pg_temp.failure('tap_6', 200, 31),
  pg_temp.failure('tap_7', 200, 89), pg_temp.failure('tap_8', 200, 91);
select is(
  pg_temp.prune(), '0 3 1 0',
  'payloads go 30 days after the failure was settled, rows after 90'
);
select set_eq(
  $$select event_id, payload is not null as kept, original_payload is not null as original_kept from public.failed_events where event_id like 'tap\_%'$$,
  $$values ('tap_4', true, true), ('tap_5', true, true), ('tap_6', false, false), ('tap_7', false, false)$$,
  'what is open keeps its payload, however old it is, and the original with it'
);
select is(pg_temp.prune(), '0 0 0 0', 'what is gone is not counted again');
select results_eq(
  $$select error_code, error, resolution, attempts from public.failed_events where event_id = 'tap_6'$$,
  $$values ('event_invalid', 'Failed', 'applied', 1)$$,
  'a row without its payload still tells what happened'
);
select is(
  public.retry_failed_event('tap_6'), 'It is already resolved: nothing to retry.',
  'nobody can retry what was pruned: it is resolved'
);
update public.failed_events set resolved_at = null, resolution = null where event_id = 'tap_6';
select throws_ok(
  $$select public.retry_failed_event('tap_6')$$, 'P0001', 'Cannot retry tap_6: its payload was pruned.',
  'nor what somebody opened again without its payload'
);
select is(
  public.retry_failed_events(of_error_code => 'event_invalid', failed_until => pg_temp.days_ago(199))
    like 'Retry requested: 1.%', true,
  'a retry of many leaves it out'
);
select is(
  (select array_agg(event_id) from public.failed_events where retry_requested_at is not null), array['tap_4'],
  'and asks for the open one that has its payload'
);
select is(
  public.record_failed_event('a', 'tap_7', '{"n": 3}', 'text', 'event_invalid', 'Failed again'), true,
  'an event whose payload was pruned fails again'
);
select is(
  (select jsonb_build_array(payload, original_payload, attempts, resolved_at) from public.failed_events where event_id = 'tap_7'),
  '[{"n": 3}, null, 2, null]', 'its row is open, with the payload that came'
);
delete from public.failed_events where event_id like 'tap\_%';

-- Notifications.

select
  pg_temp.notification('tap_10', 'pending', 400), pg_temp.notification('tap_11', 'sent', 91),
  pg_temp.notification('tap_12', 'dead', 91), pg_temp.notification('tap_13', 'undeliverable', 91),
  pg_temp.notification('tap_14', 'sent', 89), pg_temp.notification('tap_15', 'dead', 89);
select is(pg_temp.prune(), '0 0 0 3', 'of the notifications goes what is settled and older than 90 days');
select set_eq(
  $$select event_id from public.notifications where event_id like 'tap\_1%'$$, array['tap_10', 'tap_14', 'tap_15'],
  'what is still owed stays, however old it is'
);
select is(
  (select status from public.notifications where event_id = 'tap_10'), 'pending', 'and stays owed'
);
delete from public.notifications where event_id like 'tap\_%';

-- Other times to keep.

select pg_temp.ledger('tap_20', 50), pg_temp.ledger('tap_21', 70);
select pg_temp.failure('tap_22', 200, 10), pg_temp.failure('tap_23', 200, 20), pg_temp.failure('tap_24', 200, 45);
select pg_temp.notification('tap_25', 'sent', 30), pg_temp.notification('tap_26', 'sent', 45);
select is(
  pg_temp.prune($$ledger_keeps => '60 days', settled_rows_keep => '40 days', payloads_keep => '15 days'$$), '1 2 1 1',
  'each kind goes after the time that is given for it'
);
select set_eq(
  $$select event_id from public.processed_events where event_id like 'tap\_2_'
    union all select event_id || coalesce(payload ->> 'n', ' pruned') from public.failed_events where event_id like 'tap\_2_'
    union all select event_id from public.notifications where event_id like 'tap\_2_'$$,
  array['tap_20', 'tap_222', 'tap_23 pruned', 'tap_25'],
  'and the rest of each stays'
);
select is(
  pg_temp.prune($$ledger_keeps => null, settled_rows_keep => null, payloads_keep => null$$), '0 0 0 0',
  'no time to keep is no reason to delete'
);
delete from public.processed_events where event_id like 'tap\_%';
delete from public.failed_events where event_id like 'tap\_%';
delete from public.notifications where event_id like 'tap\_%';

-- Batches, oldest first.

select pg_temp.ledger(format('tap_%s', i), 100 + i) from generate_series(1, 25) as i;
select pg_temp.failure(format('tap_a%s', i), 400, 30 + i) from generate_series(1, 25) as i;
select pg_temp.failure(format('tap_b%s', i), 400, 100 + i) from generate_series(1, 25) as i;
select pg_temp.notification(format('tap_%s', i), 'sent', 100 + i) from generate_series(1, 25) as i;
select is(pg_temp.prune('batch_size => 10'), '10 10 10 10', 'a call takes a batch of each kind');
select is(
  (select array_agg(event_id order by processed_at) from public.processed_events where event_id like 'tap\_%'),
  (select array_agg(format('tap_%s', i) order by i desc) from generate_series(1, 15) as i),
  'the oldest of the ledger go first'
);
select is(pg_temp.prune('batch_size => 10'), '10 10 10 10', 'the next call takes the next batch');
select is(pg_temp.prune('batch_size => 10'), '5 10 5 5', 'until nothing old is left');
select is(pg_temp.prune('batch_size => 10'), '0 10 0 0', 'of each kind');
select is(pg_temp.prune('batch_size => 10'), '0 10 0 0', 'payloads being the most');
select is(pg_temp.prune('batch_size => 10'), '0 0 0 0', 'and then it does nothing');

select pg_temp.ledger(format('tap_c%s', i), 100) from generate_series(1, 1000) as i;
select is(pg_temp.prune(), '1000 0 0 0', 'a batch is 20,000 unless told');

-- Who may prune.

select is(
  (select count(*)::int from unnest(array['anon', 'authenticated', 'service_role']) as r (name)
    where has_function_privilege(r.name, 'public.prune_billing_tables(interval, interval, interval, integer)', 'execute')),
  0, 'nobody prunes through the API'
);
select function_privs_are(
  'public', 'prune_billing_tables', array['interval', 'interval', 'interval', 'integer'], 'postgres', array['EXECUTE'],
  'the SQL editor''s role and the job may'
);

-- Defaults against the providers' windows: 3 days of retries, 30 days in which
-- a person can have an event sent again.

select pg_temp.ledger('tap_30', 31);
select is(pg_temp.prune(), '0 0 0 0', 'the ledger outlives the time in which an event can come again');

select * from finish();
rollback;
