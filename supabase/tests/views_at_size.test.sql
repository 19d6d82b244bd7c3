/*
 * The views, the alerts and the pruning on a ledger that is large: 100,000 events in 90
 * days. Postgres counts the times that this transaction has read a table from
 * its beginning to its end.
 */
begin;
select plan(8);

insert into public.processed_events (provider, event_id, type, processed_at)
select 'a', format('tap_%s', i), 'invoice.payment_failed', now() - interval '91 days' * (i / 100000.0)
from generate_series(1, 100000) as i;
insert into public.notifications (provider, event_id, account_id, subscription_id, status, created_at)
select
  'a', format('tap_%s', i), 'acc_1', 'sub_1', case when i % 1000 = 0 then 'dead' else 'sent' end,
  now() - interval '91 days' * (i / 20000.0)
from generate_series(1, 20000) as i;
insert into public.failed_events (
  provider, event_id, payload, payload_encoding, error_code, error, first_failed_at, last_failed_at, resolved_at, resolution
)
select
  -- Payloads that are older than a day too old are gone: pruning runs often.
  'a', format('tap_%s', i), case when f.failed_at > now() - interval '31 days' or i % 100 = 0 then '{}'::jsonb end,
  'json', 'event_invalid', 'Failed', f.failed_at, f.failed_at,
  case when i % 100 > 0 then f.failed_at end, case when i % 100 > 0 then 'applied' end
from generate_series(1, 20000) as i, lateral (select now() - interval '91 days' * (i / 20000.0) as failed_at) as f;
analyze public.processed_events, public.notifications, public.failed_events;

create temporary table tallies (relname name, seq_scan bigint, what text);
create function pg_temp.tally(p_what text)
returns void
language sql
as $$
  insert into tallies
  select relname, seq_scan, p_what from pg_stat_xact_user_tables where schemaname = 'public'
$$;
-- The tables that were read from beginning to end between two tallies.
create function pg_temp.scanned(p_before text, p_after text)
returns name[]
language sql
as $$
  select coalesce(array_agg(relname order by relname), '{}')
  from tallies b join tallies a using (relname)
  where b.what = p_before and a.what = p_after and a.seq_scan > b.seq_scan
$$;

select pg_temp.tally('begin');
select count(*) from public.processed_events where type <> 'nothing';
select pg_temp.tally('scan');
select ok(
  'processed_events' = any (pg_temp.scanned('begin', 'scan')), 'reading the ledger to its end is seen'
);

select count(to_jsonb(v)) from public.billing_health as v;
select pg_temp.tally('billing_health');
select is(pg_temp.scanned('scan', 'billing_health'), '{}', 'billing_health reads no table to its end');

select count(to_jsonb(v)) from public.billing_events_per_hour as v;
select pg_temp.tally('billing_events_per_hour');
select is(
  pg_temp.scanned('billing_health', 'billing_events_per_hour'), '{}',
  'billing_events_per_hour reads no table to its end'
);

select count(to_jsonb(v)) from public.open_failures as v;
select pg_temp.tally('open_failures');
select is(pg_temp.scanned('billing_events_per_hour', 'open_failures'), '{}', 'open_failures reads no table to its end');

select cmp_ok(public.open_alerts(), '>', 0, 'there is something to report');
select pg_temp.tally('open_alerts');
select is(
  pg_temp.scanned('open_failures', 'open_alerts'), '{failure_alerts}',
  'open_alerts reads no table to its end, except the one with a row per error code'
);

select cmp_ok(
  (select ledger_rows + failures + notifications from public.prune_billing_tables()), '>', 1000::bigint,
  'there is something to prune'
);
select pg_temp.tally('prune_billing_tables');
select is(
  pg_temp.scanned('open_alerts', 'prune_billing_tables'), '{}', 'prune_billing_tables reads no table to its end'
);

select * from finish();
rollback;
