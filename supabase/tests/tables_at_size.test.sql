/*
 * Large tables: 50,000 subscriptions, a ledger of 20,000 events in 90 days, many failures,
 * notifications and features. Postgres counts what this transaction reads of each table, and how
 * often it reads one from beginning to end. Plans do not depend on privileges, so this runs once.
 */
begin;
select plan(44);

create function pg_temp.event(
  event_id text,
  kind text,
  subscription_id text,
  second integer,
  place integer default 1
)
returns jsonb language sql
return jsonb_build_object(
  'place', place,
  'provider', 'a',
  'event_id', event_id,
  'type', 'x',
  'kind', kind,
  'occurred_at', to_timestamp(1800000000 + second),
  'subscription_id', subscription_id,
  'account_id', case when kind = 'creation' then 'acc_1' end,
  'report', jsonb_build_object(
    'plan_id', 'plan_1',
    'provider_status', 'active',
    'customer_id', 'cus_' || subscription_id
  ),
  'payment', case when kind = 'payment_failed' then '{"invoice_id": "in_1"}'::jsonb end
);

create temporary table snapshots (what text, relname name, scans bigint, rows bigint);
grant all on snapshots to service_role;

create function pg_temp.snapshot(what text)
returns void language sql as $$
  delete from snapshots s where s.what = snapshot.what;
  insert into snapshots
  select what, relname, seq_scan, seq_tup_read + idx_tup_fetch
  from pg_stat_xact_user_tables
  where schemaname = 'billing'
$$;
-- Between two snapshots: the tables that were read to their end, and the rows that were read.
create function pg_temp.scanned(earlier text, later text)
returns text language sql as $$
  select coalesce(string_agg(relname, ' ' order by relname), 'none')
  from snapshots e
  join snapshots l using (relname)
  where e.what = earlier and l.what = later and l.scans > e.scans
$$;

create function pg_temp.rows_read(earlier text, later text, name name)
returns bigint language sql as $$
  select l.rows - e.rows
  from snapshots e
  join snapshots l using (relname)
  where e.what = earlier and l.what = later and relname = name
$$;

-- Plans that are made while the tables are empty are kept.
truncate billing.subscriptions, billing.failed_events, billing.notifications, billing.processed_events;
analyze billing.subscriptions, billing.failed_events, billing.notifications, billing.processed_events;
set local role service_role;

create function pg_temp.call(n integer)
returns text language plpgsql as $$
declare
  outcomes text[];
begin
  perform pg_temp.snapshot('before_creation');
  outcomes := array(select outcome from public.billing_apply_events(jsonb_build_array(pg_temp.event('c' || n, 'creation', 'tap_' || n, 0))));
  perform pg_temp.snapshot('creation');
  outcomes := outcomes || array(select outcome from public.billing_apply_events(jsonb_build_array(pg_temp.event('u' || n, 'update', 'tap_' || n, 1))));
  perform pg_temp.snapshot('update');
  outcomes := outcomes || array(select outcome from public.billing_apply_events((
    select jsonb_agg(pg_temp.event('m' || n || '_' || i, 'update', 'tap_' || i, n + 2, i)) from generate_series(1, least(n, 5)) as i
  )));
  perform pg_temp.snapshot('updates');
  outcomes := outcomes || array(select outcome from public.billing_apply_events(jsonb_build_array(
    pg_temp.event('p' || n, 'payment_failed', 'tap_' || n, 3)
      || jsonb_build_object('payment', jsonb_build_object('invoice_id', 'in_' || n, 'once_per_invoice', true))
  )));
  perform pg_temp.snapshot('payment');
  perform public.billing_claim_notifications('00000000-0000-0000-0000-000000000001', 1, 'host');
  perform pg_temp.snapshot('claim');
  return (select string_agg(distinct o, ' ') from unnest(outcomes) as o);
end;
$$;
select pg_temp.call(n) from generate_series(1, 10) as n;
reset role;

insert into billing.subscriptions (id, provider, account_id, status, plan_id)
select 'few_' || i, 'a', 'acc_' || i, 'active', 'price_pro' from generate_series(1, 1000) as i;
insert into billing.processed_events (provider, event_id, type, processed_at)
select 'a', 'e' || i, 'x', now() - interval '91 days' * (i / 20000.0)
from generate_series(1, 20000) as i;
insert into billing.notifications (
  provider,
  event_id,
  account_id,
  subscription_id,
  invoice_id,
  status,
  created_at,
  next_attempt_at
)
select
  'a',
  'e' || i,
  'acc_1',
  'sub_1',
  'inv_' || i,
  case i % 1000 when 0 then 'dead' when 1 then 'pending' else 'sent' end,
  now() - interval '91 days' * (i / 20000.0),
  now() + interval '1 day' * (i % 3 - 1)
from generate_series(1, 20000) as i;
insert into billing.failed_events (
  provider,
  event_id,
  payload,
  payload_encoding,
  error_code,
  error,
  first_failed_at,
  last_failed_at,
  resolved_at,
  resolution,
  subscription_id,
  customer_id
)
select
-- Payloads that are old enough are deleted: pruning runs often.
'a' , 'e'
  || i, case when f.failed_at > now() - interval '31 days' or i % 100 = 0 then '{}'::jsonb end,
-- A record, and an account, cure those that are open.
'json' , 'account_unknown', 'Failed', f.failed_at, f.failed_at, case when i % 100 > 0 then f.failed_at end, case when i % 100 > 0 then 'applied' end, 'sub_'
  || i, 'cus_'
  || i
from generate_series(1, 20000) as i,
  lateral (select now() - interval '91 days' * (i / 20000.0) as failed_at) as f;

-- With the plans of the empty tables.
set local role service_role;
select is(pg_temp.call(11), 'applied', 'events of each kind are applied');
select is(
  pg_temp.rows_read(e.earlier, e.later, e.name),
  e.rows,
  format('%s reads %s rows of %s', e.later, e.rows, e.name)
)
from (
  values
    ('before_creation', 'creation', 'failed_events'::name, 0::bigint),
    ('creation', 'update', 'failed_events', 0),
    ('update', 'updates', 'failed_events', 0),
    ('updates', 'payment', 'failed_events', 0),
    ('before_creation', 'creation', 'subscriptions', 0),
    ('creation', 'update', 'subscriptions', 2),
    ('update', 'updates', 'subscriptions', 10),
    ('updates', 'payment', 'notifications', 0),
    ('updates', 'payment', 'processed_events', 0),
    ('payment', 'claim', 'subscriptions', 0)
) as e (earlier, later, name, rows);

select public.billing_apply_events(jsonb_build_array(pg_temp.event('e7', 'update', 'tap_1', 99)));
reset role;

-- With fresh plans. Indexes are quicker to build afterwards.
truncate billing.subscriptions;
drop index billing.subscriptions_account_id, billing.subscriptions_customer_id;
insert into billing.subscriptions (
  id,
  provider,
  account_id,
  status,
  provider_status,
  plan_id,
  customer_id
)
select 'sub_' || i, 'a', 'acc_' || i, 'active', 'active', 'price_pro', 'cus_' || i
from generate_series(1, 50000) as i;
create index subscriptions_account_id on billing.subscriptions (account_id);
create index subscriptions_customer_id on billing.subscriptions (provider, customer_id) where customer_id is not null;
analyze billing.subscriptions, billing.processed_events, billing.notifications, billing.failed_events;
select pg_temp.snapshot('begin');
select count(*) from billing.processed_events where type <> 'nothing';
select pg_temp.snapshot('scan');
select is(pg_temp.scanned('begin', 'scan'), 'processed_events', 'a scan is seen');

select count(to_jsonb(v)) from billing.health as v;
select pg_temp.snapshot('health');
select is(
  pg_temp.scanned('scan', 'health'),
  'leases',
  'health scans no table of more than two rows'
);

select count(to_jsonb(v)) from billing.events_per_hour as v;
select pg_temp.snapshot('hours');
select is(pg_temp.scanned('health', 'hours'), 'none', 'events_per_hour scans no table');

select count(to_jsonb(v)) from billing.open_failures as v;
select pg_temp.snapshot('open');
select is(pg_temp.scanned('hours', 'open'), 'none', 'open_failures scans no table');

select billing.retry_failed_event('e100');
select pg_temp.snapshot('request');
select is(
  (
    select count(*)::integer
    from public.billing_claim_failed_events('00000000-0000-0000-0000-000000000001', 10)
  ),
  1,
  'a retry is due'
);

select pg_temp.snapshot('retries');
select is(pg_temp.scanned('request', 'retries'), 'none', 'a claim of retries scans no table');
select is(
  (
    select count(*)::integer
    from public.billing_claim_alerts('00000000-0000-0000-0000-000000000001', 'host')
  ),
  1,
  'an alert is due'
);

select pg_temp.snapshot('alerts');
select doesnt_match(
  pg_temp.scanned('retries', 'alerts'),
  '(events|subscriptions|notifications)',
  'and no table is scanned but those with a row per code or queue'
);
select cmp_ok(
  (
    select count(*)::integer
    from public.billing_claim_notifications('00000000-0000-0000-0000-000000000001', 10, 'host')
  ),
  '=',
  10,
  'notifications are due'
);

select pg_temp.snapshot('notifications');
select cmp_ok(
  pg_temp.rows_read('alerts', 'notifications', 'notifications'),
  '<',
  100::bigint,
  'and only pending ones are read'
);
select cmp_ok(
  (select ledger_rows + failures + notifications from billing.prune()),
  '>',
  500::bigint,
  'there is something to prune'
);

select pg_temp.snapshot('prune');
select is(pg_temp.scanned('notifications', 'prune'), 'none', 'prune scans no table');

-- Many that failed at once, or are due at once, of which the statistics say nothing: they were made while none was.

-- Then a plan that joins by anything but the key reads each row for each other one.
create function pg_temp.fail_many(subscription text)
returns void language sql as $$
  truncate billing.failed_events, billing.leases;
  insert into billing.failed_events (
    provider,
    event_id,
    payload,
    payload_encoding,
    error_code,
    error,
    kind,
    subscription_id,
    occurred_at,
    resolved_at,
    resolution
  )
  select
    'a',
    'many_' || i,
    '{}',
    'json',
    'apply_failed',
    'Failed',
    'update',
    case subscription when 'each' then 'sub_' || i else subscription end,
    now() - i * interval '1 s',
    now(),
    'by hand'
  from generate_series(1, 3000) as i;
  analyze billing.failed_events;
  update billing.failed_events set resolved_at = null, resolution = null;
$$;

create function pg_temp.claim_many(number integer)
returns integer language sql as $$
  select count(*)::integer
  from public.billing_claim_failed_events(lpad(number::text, 32, '0')::uuid, 25)
$$;
select pg_temp.fail_many('each'), pg_temp.snapshot('many');
select matches(
  billing.retry_failed_events(),
  '^Retry requested: 3000\.',
  'a retry of all is requested'
);

select pg_temp.snapshot('requested');
select cmp_ok(
  pg_temp.rows_read('many', 'requested', 'failed_events'),
  '<=',
  3 * 3000::bigint,
  'which reads each of them a few times'
);
select is(pg_temp.claim_many(1), 25, 'a batch is claimed');

select pg_temp.snapshot('claimed');
select cmp_ok(
  pg_temp.rows_read('requested', 'claimed', 'failed_events'),
  '<=',
  3000::bigint + 3 * 25,
  'which reads each once, and its own rows a few times'
);

select is(
  public.billing_settle_failed_events(
    lpad('1', 32, '0')::uuid,
    (
      select jsonb_agg(jsonb_build_object(
        'provider', 'a',
        'event_id', 'many_' || i,
        'outcome', 'ignored'
      ))
      from generate_series(2976, 3000) as i
    )
  ),
  25,
  'and settled'
);

select pg_temp.snapshot('settled');
select cmp_ok(
  pg_temp.rows_read('claimed', 'settled', 'failed_events'),
  '<=',
  5 * 25::bigint,
  'which reads only these'
);

select
  billing.resolve_failed_event('many_7', 'a test'),
  billing.reopen_failed_event('many_7'),
  pg_temp.snapshot('named');
select cmp_ok(
  pg_temp.rows_read('settled', 'named', 'failed_events'),
  '<=',
  10::bigint,
  'so does what a person names'
);

-- Of one subscription, or of none; and by the schedule.
create function pg_temp.rows_of_claim(subscription text)
returns bigint language plpgsql as $$
begin
  perform pg_temp.fail_many(subscription);
  update billing.failed_events set next_retry_at = now();
  perform pg_temp.snapshot('before');
  perform pg_temp.claim_many(2), pg_temp.snapshot('after');
  return pg_temp.rows_read('before', 'after', 'failed_events');
end;
$$;

select cmp_ok(
  pg_temp.rows_of_claim(s),
  '<=',
  3000::bigint + 3 * 25,
  format('so does a claim of scheduled ones, of subscription %s', s)
)
from unnest(array['each', 'one', null]) as s;
select is(billing.account_of_customer('a', 'cus_7'), 'acc_7', 'a customer has an account');

select pg_temp.snapshot('customer');
select is(
  pg_temp.rows_read('prune', 'customer', 'subscriptions'),
  1::bigint,
  'and only its subscription is read'
);

-- billing_has_access, in a call and in the policy of another table.
create table public.documents (account_id text not null);
insert into public.documents select 'acc_' || i % 1000 from generate_series(1, 10000) as i;
create index on public.documents (account_id);
analyze public.documents;
alter table public.documents enable row level security;
grant execute on function public.billing_has_access to authenticated;
grant select on public.documents, public.billing_subscriptions, billing.subscriptions to authenticated;
create policy "Own" on billing.subscriptions for select to authenticated using (account_id = (select auth.jwt() ->> 'account'));
create policy "Own, with access" on public.documents for select to authenticated
using (account_id = (select auth.jwt() ->> 'account') and (select public.billing_has_access((select auth.jwt() ->> 'account'), '3 days')));
select set_config('request.jwt.claims', '{"account": "acc_7"}', true);

-- The function's text as a statement. Like a function, it is planned without its arguments.
set local plan_cache_mode = force_generic_plan;
do $$
begin
  execute (
    select 'prepare body (text, interval) as ' || replace(replace(prosrc, 'billing_has_access.account_id', '$1'), 'billing_has_access.grace', '$2')
    from pg_proc where oid = 'public.billing_has_access'::regproc
  );
end;
$$;

create function pg_temp.plan_of(statement text)
returns text language plpgsql as $$
declare
  line text;
  lines text := '';
begin
  for line in execute 'explain (costs off) ' || statement loop
    lines := lines || line || E'\n';
  end loop;
  return lines;
end;
$$;

select matches(
  pg_temp.plan_of($$execute body ('acc_7', '3 days')$$),
  'Index Scan using subscriptions_account_id',
  'it uses the index'
);

set local role authenticated;
select matches(
  pg_temp.plan_of($$execute body ('acc_7', '3 days')$$),
  'Index Scan using subscriptions_account_id',
  'also under a policy'
);
select doesnt_match(
  pg_temp.plan_of($$execute body ('acc_7', '3 days')$$),
  'Seq Scan',
  'and no scan'
);

reset role;
select pg_temp.snapshot('before_access');
set local role authenticated;
select ok(
  public.billing_has_access('acc_7') and not public.billing_has_access('acc_8'),
  'a call with 50,000 subscriptions'
);
select is(
  (select count(*)::integer from public.documents),
  10,
  'a policy of another table asks it'
);

reset role;
select pg_temp.snapshot('access');
select is(
  pg_temp.scanned('before_access', 'access')
    || ' '
    || pg_temp.rows_read('before_access', 'access', 'subscriptions'),
  'none 2',
  'they read one row per call, and none of another account'
);

-- billing_has_feature, with two items in a subscription and a row for each.
insert into billing.plan_features
select 'price_' || i, f, i
from generate_series(1, 5000) as i, unnest(array['seats', 'storage']) as f;
update billing.subscriptions
set items = '[{"price_id": "price_7", "product_id": "prod_7"}, {"price_id": "price_8"}]'
where id = 'sub_7';
analyze billing.plan_features;
grant execute on function public.billing_has_feature, public.billing_feature_amount to authenticated;
grant select on public.billing_plan_features, billing.plan_features to authenticated;
create policy "All" on billing.plan_features for select to authenticated using (true);
select pg_temp.snapshot('before_feature');
set local role authenticated;
select ok(
  public.billing_has_feature('acc_7', 'seats') and not public.billing_has_feature('acc_8', 'seats'),
  'a plan includes seats'
);

reset role;
select pg_temp.snapshot('feature');
select is(
  pg_temp.scanned('before_feature', 'feature')
    || format(
      ' %s %s',
      pg_temp.rows_read('before_feature', 'feature', 'subscriptions'),
      pg_temp.rows_read('before_feature', 'feature', 'plan_features')
    ),
  'none 1 2',
  'it scans no table, and reads one subscription and a row per item'
);

set local role authenticated;
select matches(
  -- Postgres 15 and 17 name it differently.
  pg_temp.plan_of('select from public.documents'),
  'InitPlan.*Index Cond: \(account_id = (\(InitPlan|\$\d)',
  'in a subquery, the policy asks once per statement'
);

select * from finish();
rollback;
