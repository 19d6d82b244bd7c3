/*
 * billing.prune: what is old is deleted, a batch at a time; what is open or pending stays,
 * however old it is.
 */
begin;
select plan(15);
truncate billing.processed_events, billing.failed_events, billing.notifications;

create function pg_temp.days_ago(days integer)
returns timestamptz language sql
return now() - make_interval(days => days);

create function pg_temp.ledger(event_id text, days integer)
returns void language sql as $$
  insert into billing.processed_events (provider, event_id, type, processed_at)
  values ('a', event_id, 'x', pg_temp.days_ago(days))
$$;

create function pg_temp.failure(event_id text, resolved_days integer default null)
returns void language sql as $$
  select pg_temp.add('failed_events', jsonb_build_object(
    'provider', 'a',
    'event_id', event_id,
    'payload', '{"n": 2}'::jsonb,
    'original_payload', '{"n": 1}'::jsonb,
    'payload_encoding', 'json',
    'error_code', 'event_invalid',
    'error', 'Failed',
    'first_failed_at', pg_temp.days_ago(400),
    'last_failed_at', pg_temp.days_ago(400),
    'resolved_at', pg_temp.days_ago(resolved_days),
    'resolution', case when resolved_days is not null then 'applied' end
  ))
$$;

create function pg_temp.notification(event_id text, status text, days integer)
returns void language sql as $$
  select pg_temp.add('notifications', jsonb_build_object(
    'provider', 'a',
    'event_id', event_id,
    'account_id', 'acc_1',
    'subscription_id', 'sub_1',
    'status', status,
    'created_at', pg_temp.days_ago(days)
  ))
$$;

create function pg_temp.prune(arguments text default '')
returns text language plpgsql as $$
declare
  pruned record;
begin
  execute format('select * from billing.prune(%s)', arguments) into strict pruned;
  return concat_ws(' ', pruned.ledger_rows, pruned.payloads, pruned.failures, pruned.notifications);
end;
$$;

create function pg_temp.left_over()
returns text language sql as $$
  select string_agg(what, ', ' order by what)
  from (
    select event_id as what
    from billing.processed_events
    union all
    select event_id
      || case when num_nonnulls(payload, original_payload) = 0 then ' without payload' else '' end
    from billing.failed_events
    union all
    select event_id
    from billing.notifications
  ) as everything
$$;

create function pg_temp.fill()
returns void language sql as $$
  truncate billing.processed_events, billing.failed_events, billing.notifications;
  select pg_temp.ledger('l' || days, days) from unnest(array[0, 50, 90, 91]) as days;
  select pg_temp.failure('f' || days, days) from unnest(array[10, 30, 31, 90, 91]) as days;
  select pg_temp.failure('f_open');
  select pg_temp.notification('n_' || status || days, status, days)
  from unnest(array['pending', 'sent', 'dead', 'undeliverable', 'withdrawn']) as status,
    unnest(array[90, 91]) as days;
$$;

select pg_temp.fill();
select is(pg_temp.prune(), '1 3 1 4', 'pruning counts the rows of each table');
select is(
  pg_temp.left_over(),
  'f10, f30, f31 without payload, f90 without payload, f_open, l0, l50, l90, n_dead90, '
    'n_pending90, n_pending91, n_sent90, n_undeliverable90, n_withdrawn90',
  'settled rows last 90 days, their payloads 30, and open ones forever'
);
select is(pg_temp.prune(), '0 0 0 0', 'deleted rows are not counted again');

select pg_temp.fill();
select is(
  pg_temp.prune(
    $$ledger_keeps => '60 days', settled_rows_keep => '90 days', payloads_keep => '15 days'$$
  ),
  '2 4 1 4',
  'each kind of row may have its time'
);

select pg_temp.fill();
select is(
  pg_temp.prune($$settled_rows_keep => '30 days'$$),
  '1 3 3 8',
  'the time of settled rows may be shorter'
);

select pg_temp.fill();
select is(pg_temp.prune('null, null, null'), '0 0 0 0', 'null keeps everything');

-- Batches, the oldest first.
truncate billing.processed_events, billing.failed_events, billing.notifications;
select
  pg_temp.ledger('l' || i, 100 + i),
  pg_temp.failure('fa' || i, 30 + i),
  pg_temp.failure('fb' || i, 100 + i),
  pg_temp.notification('n' || i, 'sent', 100 + i)
from generate_series(1, 25) as i;
select is(pg_temp.prune('batch_size => 10'), '10 10 10 10', 'a call deletes a batch of each table');
select is(
  (select array_agg(event_id order by processed_at) from billing.processed_events),
  (select array_agg('l' || i order by i desc) from generate_series(1, 15) as i),
  'the oldest rows of the ledger are deleted first'
);
select results_eq(
  $$select min(created_at), max(created_at) from billing.notifications$$,
  $$values (pg_temp.days_ago(115), pg_temp.days_ago(101))$$,
  'the oldest notifications are deleted first'
);
select is(
  pg_temp.prune('batch_size => 10'),
  s.pruned,
  format('call %s deletes the next batch', s.place)
)
from (
  values
    (2, '10 10 10 10'),
    (3, '5 10 5 5'),
    (4, '0 10 0 0'),
    (5, '0 10 0 0'),
    (6, '0 0 0 0')
) as s (place, pruned)
order by s.place;
select matches(
  pg_get_function_arguments('billing.prune'::regproc),
  'batch_size integer DEFAULT 20000$',
  'a batch has 20,000 rows by default'
);
select * from finish();
rollback;
