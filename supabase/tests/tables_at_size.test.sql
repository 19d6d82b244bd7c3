/*
 * Large tables: 50,000 subscriptions, a ledger of 20,000 events in 90 days, many failures,
 * notifications and features. Postgres counts what this transaction reads of each table, and how
 * often it reads one from beginning to end. Plans do not depend on privileges, so this runs once.
 */
begin;
select plan(38);

create function pg_temp.sent(event_id text, kind text, subscription_id text, second integer)
returns jsonb language sql
return pg_temp.event(event_id, kind, subscription_id, second, jsonb_build_object(
  'place', second,
  'report', jsonb_build_object(
    'plan_id', 'plan_1',
    'provider_status', 'active',
    'customer_id', 'cus_' || subscription_id
  ),
  'payment', case
    when kind = 'payment_failed'
      then jsonb_build_object('invoice_id', 'in_' || subscription_id, 'once_per_invoice', true)
  end
));

-- Returns what this transaction has read of each table until now.
create function pg_temp.counts()
returns table (relname name, scans bigint, rows bigint) language sql as $$
  select relname, seq_scan, seq_tup_read + idx_tup_fetch
  from pg_stat_xact_user_tables
  where schemaname = 'billing'
$$;

-- Runs a statement that returns one value, which must be the expected one. Returns the tables that
-- it read from beginning to end, and how many rows it read of each table.
create function pg_temp.watch(statement text, expected text, out scanned text, out reads jsonb)
language plpgsql as $$
declare
  earlier jsonb := (select jsonb_object_agg(c.relname, to_jsonb(c)) from pg_temp.counts() as c);
  value text;
begin
  execute statement into value;
  assert value = expected, format('%s returned %s', statement, value);

  select
    coalesce(string_agg(relname, ' ' order by relname) filter (where scans > (e ->> 'scans')::bigint), 'none'),
    jsonb_object_agg(relname, rows - (e ->> 'rows')::bigint)
  into scanned, reads
  from (select c.*, earlier -> c.relname::text as e from pg_temp.counts() as c) as later;
end;
$$;

create function pg_temp.scanned(statement text, expected text)
returns text language sql
return (select w.scanned from pg_temp.watch(statement, expected) as w);

create function pg_temp.reads(statement text, expected text, name text)
returns integer language sql
return (select (w.reads ->> name)::integer from pg_temp.watch(statement, expected) as w);

-- Steps of which each applies events or claims a notification.
create function pg_temp.steps(n integer)
returns table (step text, statement text, expected text) language sql as $$
  select
    s.step,
    format(
      'select string_agg(distinct outcome, %L) from public.billing_apply_events(%L)', ' ', s.events
    ),
    'applied'
  from (
    values
      ('creation', jsonb_build_array(pg_temp.sent('c' || n, 'creation', 'tap_' || n, 0))),
      ('update', jsonb_build_array(pg_temp.sent('u' || n, 'update', 'tap_' || n, 1))),
      (
        'updates',
        (
          select jsonb_agg(pg_temp.sent('m' || n || '_' || i, 'update', 'tap_' || i, n + i))
          from generate_series(1, least(n, 5)) as i
        )
      ),
      ('payment', jsonb_build_array(pg_temp.sent('p' || n, 'payment_failed', 'tap_' || n, 3)))
  ) as s (step, events)
  union all
  select
    'claim',
    $q$
      select count(*)
      from public.billing_claim_notifications('00000000-0000-0000-0000-000000000001', 1, 'host')
    $q$,
    '1'
$$;

-- Plans that are made while the tables are empty are kept.
truncate billing.subscriptions, billing.grants, billing.failed_events, billing.notifications;
truncate billing.processed_events;
analyze billing.subscriptions, billing.failed_events, billing.notifications;
analyze billing.processed_events;
set local role service_role;
select pg_temp.watch(s.statement, s.expected)
from generate_series(1, 10) as n, pg_temp.steps(n) as s;

-- Then they fill.
reset role;
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
select 'few_' || i, 'a', 'acc_' || i, 'active', 'price_pro' from generate_series(1, 1000) as i;

insert into billing.processed_events (provider, event_id, type, processed_at)
select 'a', 'e' || i, 'x', now() - interval '91 days' * (i / 20000.0)
from generate_series(1, 20000) as i;

insert into billing.erasures (hash) select sha256(n::text::bytea) from generate_series(1, 9999) n;
insert into billing.missed_events (provider, type, found_at, events)
select 'a', 'x', now() - interval '91 days' * (i / 20000.0), 1
from generate_series(1, 20000) as i;

insert into billing.notifications (
  provider, event_id, account_id, subscription_id, invoice_id, status, created_at, next_attempt_at
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

-- A record, or an account, cures the failures that are open. Payloads that are old enough are
-- deleted, because pruning runs often.
insert into billing.failed_events (
  provider, event_id, payload, payload_encoding, error_code, error, first_failed_at,
  last_failed_at, resolved_at, resolution, subscription_id, customer_id
)
select
  'a',
  'e' || i,
  case when failed_at > now() - interval '31 days' or i % 100 = 0 then '{}'::jsonb end,
  'json',
  'account_unknown',
  'Failed',
  failed_at,
  failed_at,
  case when i % 100 > 0 then failed_at end,
  case when i % 100 > 0 then 'applied' end,
  'sub_' || i,
  'cus_' || i
from generate_series(1, 20000) as i,
  lateral (select now() - interval '91 days' * (i / 20000.0) as failed_at) as f;

-- With the plans of the empty tables.
set local role service_role;
create temporary table watched as
select s.step, w.reads from pg_temp.steps(11) as s, pg_temp.watch(s.statement, s.expected) as w;
select is(
  (w.reads ->> e.name)::integer,
  e.rows,
  format('the step %s reads %s rows of %s', step, e.rows, e.name)
)
from (
  values
    ('creation', 'failed_events', 0),
    ('update', 'failed_events', 0),
    ('updates', 'failed_events', 0),
    ('payment', 'failed_events', 0),
    ('creation', 'subscriptions', 0),
    ('update', 'subscriptions', 2),
    ('updates', 'subscriptions', 10),
    ('payment', 'notifications', 0),
    ('payment', 'processed_events', 0),
    ('claim', 'subscriptions', 0)
) as e (step, name, rows)
join watched w using (step);

select public.billing_apply_events(jsonb_build_array(pg_temp.sent('e7', 'update', 'tap_1', 99)));

-- With fresh plans. Indexes are quicker to build afterwards.
reset role;
truncate billing.subscriptions, billing.grants;
drop index billing.subscriptions_account_id, billing.subscriptions_customer_id;
insert into billing.subscriptions (
  id, provider, account_id, status, provider_status, plan_id, customer_id
)
select 'sub_' || i, 'a', 'acc_' || i, 'active', 'active', 'price_pro', 'cus_' || i
from generate_series(1, 50000) as i;
create index subscriptions_account_id on billing.subscriptions (account_id);
create index subscriptions_customer_id on billing.subscriptions (provider, customer_id)
where customer_id is not null;
analyze billing.subscriptions, billing.processed_events, billing.notifications;
analyze billing.failed_events, billing.missed_events, billing.erasures;

select billing.retry_failed_event('e100');
select is(
  pg_temp.scanned($$select count(*) > 0 from billing.processed_events where type > ''$$, 'true'),
  'processed_events',
  'a scan is noticed'
);
select is(
  pg_temp.scanned('select count(to_jsonb(v)) from billing.health as v', '1'),
  'leases sweeps',
  'health scans no table but those with a row per queue or provider'
);
alter index billing.subscriptions_account_id set (fillfactor = 10);
reindex index billing.subscriptions_account_id;
select is(
  (select double_subscribed from billing.health),
  null,
  'health does not look for double subscriptions among very many'
);
select is(
  pg_temp.scanned('select count(to_jsonb(v)) > 0 from billing.events_per_hour as v', 'true'),
  'none',
  'events_per_hour scans no table'
);
select is(
  pg_temp.scanned('select count(to_jsonb(v)) > 0 from billing.open_failures as v', 'true'),
  'none',
  'open_failures scans no table'
);
select is(
  pg_temp.scanned(
    $$
      select count(*)
      from public.billing_claim_failed_events('00000000-0000-0000-0000-000000000001', 10)
    $$,
    '1'
  ),
  'none',
  'a claim of retries scans no table'
);
select is(
  pg_temp.scanned($$select public.billing_missing_events('{e1,new,e100}')$$, '{new}'),
  'none',
  'a sweep looks up events by an index'
);
select doesnt_match(
  pg_temp.scanned(
    $$
      select count(*)
      from public.billing_claim_alerts('00000000-0000-0000-0000-000000000001', 'host')
    $$,
    '2'
  ),
  '(events|subscriptions|notifications)',
  'a claim of alerts scans only tables with a row per code, queue or provider'
);
select is(
  pg_temp.scanned($$select left(billing.retry_failed_events(), 20)$$, 'Retry requested: 200'),
  'none',
  'a retry of all scans no table'
);
select cmp_ok(
  pg_temp.reads(
    $$
      select count(*)
      from public.billing_claim_notifications('00000000-0000-0000-0000-000000000001', 10, 'host')
    $$,
    '10',
    'notifications'
  ),
  '<',
  100,
  'a claim of notifications reads only pending ones'
);
select is(
  pg_temp.scanned(
    'select ledger_rows + failures + notifications > 500 from billing.prune()',
    'true'
  ),
  'installation',
  'prune scans no table but that of one row'
);
select is(
  pg_temp.reads($$select billing.account_of_customer('a', 'cus_7')$$, 'acc_7', 'subscriptions'),
  1,
  'account_of_customer reads only the customer''s subscription'
);

-- Many that failed at once, or are due at once, of which the statistics say nothing: they were made
-- while none was. Then a plan that joins by anything but the key reads each row for each other one.
create function pg_temp.fail_many(subscription text, next_retry_at timestamptz default null)
returns void language sql as $$
  truncate billing.failed_events, billing.leases;
  insert into billing.failed_events (
    provider, event_id, payload, payload_encoding, error_code, error, kind, subscription_id,
    occurred_at, resolved_at, resolution
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
  update billing.failed_events f
  set resolved_at = null, resolution = null, next_retry_at = fail_many.next_retry_at;
$$;

select pg_temp.fail_many('each');
select cmp_ok(pg_temp.reads(c.statement, c.expected, 'failed_events'), '<=', c.rows, c.why)
from (
  values
    ($$select left(billing.retry_failed_events(), 21)$$, 'Retry requested: 3000', 3 * 3000,
      'a retry of all reads each failure a few times'),
    (
      $$select count(*) from public.billing_claim_failed_events(lpad('1', 32, '0')::uuid, 25)$$,
      '25',
      3000 + 3 * 25,
      'a claim reads each failure once, and its own a few times'
    ),
    (
      $$
        select public.billing_settle_failed_events(lpad('1', 32, '0')::uuid, jsonb_agg(
          jsonb_build_object('provider', 'a', 'event_id', 'many_' || i, 'outcome', 'ignored')
        ))
        from generate_series(2976, 3000) as i
      $$,
      '25',
      5 * 25,
      'settling reads only its own failures'
    ),
    (
      $$
        select left(billing.resolve_failed_event('many_7', 'a test'), 8)
          || left(billing.reopen_failed_event('many_7'), 16)
      $$,
      'ResolvedIt is open again',
      10,
      'resolving and reopening read only the named failure'
    )
) as c (statement, expected, rows, why);

-- The failures are of one subscription, or of none, and the schedule retries them.
create function pg_temp.reads_of_claim(subscription text)
returns integer language sql as $$
  select pg_temp.fail_many(subscription, now());
  select pg_temp.reads(
    'select count(*) from public.billing_claim_failed_events(gen_random_uuid(), 25)',
    '25',
    'failed_events'
  )
$$;

select cmp_ok(
  pg_temp.reads_of_claim(s),
  '<=',
  3000 + 3 * 25,
  format('a claim of scheduled failures of subscription %s reads each once', s)
)
from unnest(array['each', 'one', null]) as s;

-- What an app asks, in a call and in the policy of another table. Two hundred rows of features: few
-- enough to invite a scan.
insert into billing.plan_features
select 'price_' || i, 'feature_' || j, j
from generate_series(1, 20) as i, generate_series(1, 10) as j;
update billing.subscriptions
set items = '[{"price_id": "price_7", "product_id": "prod_7"}, {"price_id": "price_8"}]'
where id = 'sub_7';
analyze billing.plan_features;

create table public.documents (account_id text not null);
insert into public.documents select 'acc_' || i % 1000 from generate_series(1, 10000) as i;
create index on public.documents (account_id);
analyze public.documents;
alter table public.documents enable row level security;
grant select on public.documents to authenticated, service_role;
select pg_temp.let_users_read();
create policy "Own, with access" on public.documents for select to authenticated
using (
  account_id = (select auth.jwt() ->> 'account')
  and (select public.billing_has_access((select auth.jwt() ->> 'account'), '3 days'))
  and (select public.billing_has_feature((select auth.jwt() ->> 'account'), 'feature_1'))
);
select set_config('request.jwt.claims', '{"account": "acc_7"}', true);
-- As after a few calls.
set local plan_cache_mode = force_generic_plan;

create function pg_temp.reads_of(what text)
returns text language sql as $$
  select concat_ws(' ', w.scanned, w.reads ->> 'subscriptions', w.reads ->> 'plan_features')
  from pg_temp.watch(
    case what
      when 'documents' then 'select count(*) = 10 from public.documents'
      else format('select (public.billing_%s) is not null', what)
    end,
    'true'
  ) as w
$$;
create temporary view asked as
select *
from (
  values
    ('has_access(''acc_7'')', 'none 1 0'),
    ('account(''acc_7'')', 'none 2 20'),
    ('has_feature(''acc_7'', ''feature_9'')', 'none 2 20'),
    ('account(''acc_none'')', 'none 0 0')
) as a (what, reads);
grant select on asked to authenticated, service_role;

set local role service_role;
select is(pg_temp.reads_of(what), reads, format('%s reads only rows of its account and plans', what))
from asked;
set local role authenticated;
select is(pg_temp.reads_of(what), reads, format('%s does so under a policy', what))
from asked;
select is(
  pg_temp.reads_of('documents'),
  'none 3 20',
  'the policy of another table asks once per statement'
);

select * from finish();
rollback;
