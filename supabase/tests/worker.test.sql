/*
 * The schedule of the worker, and its wake, on a project whose extensions are off, on, or
 * partly on. A plain Postgres has none of them: tests/support/extensions stands for them, with
 * their control files, signatures and privileges.
 */
begin;
select plan(53);

create function pg_temp.schedule(key text default 'sb_secret_1')
returns text language sql as $$
  select billing.schedule_worker('https://ref.supabase.co/', key)
$$;

create function pg_temp.calls()
returns integer language plpgsql as $$
declare
  calls integer;
begin
  delete from net.http_request_queue;
  get diagnostics calls = row_count;
  return calls;
end;
$$;

create function pg_temp.extensions()
returns text language sql as $$
  select string_agg(e.extname || ' in ' || e.extnamespace::regnamespace, ', ' order by e.extname)
  from pg_extension e where e.extname in ('pg_cron', 'pg_net', 'supabase_vault')
$$;

-- Off.
select is(pg_temp.extensions(), null, 'there are no extensions yet');
select ok(not billing.wake_worker(), 'without extensions, a wake does nothing');
select lives_ok('select billing.unschedule_worker()', 'nor does unscheduling');

select pg_temp.file('tap_1', 'tap_code'), pg_temp.file('tap_2', 'tap_code');
select matches(
  billing.retry_failed_event('tap_1'),
  'The worker retries it at its next run',
  'without extensions, a retry waits for the next run'
);
select throws_like(
  format('select billing.schedule_worker(%L, %L)', a.url, a.key),
  a.message,
  format('%L and %L are refused', a.url, a.key)
)
from (
  values
    ('https://ref.supabase.co/functions/v1/x', 'sb_secret_1', '%without a path%'),
    ('ref.supabase.co', 'sb_secret_1', '%must look like%'),
    ('http://ref.supabase.co', 'sb_secret_1', '%must look like https%'),
    ('http://localhost.example', 'sb_secret_1', '%must look like https%'),
    ('http://127.0.0.1.example:80', 'sb_secret_1', '%must look like https%'),
    ('https://ref.supabase.co', 'sb_publishable_1', '%secret key%'),
    ('http://127.0.0.1:54321', 'x', '%secret key%'),
    ('http://kong:8000/', 'x', '%secret key%')
) as a (url, key, message);
select is(pg_temp.extensions(), null, 'a refused schedule creates no extension');

select matches(pg_temp.schedule(), 'every minute', 'scheduling says what it did');
select is(
  pg_temp.extensions(),
  'pg_cron in pg_catalog, pg_net in extensions, supabase_vault in vault',
  'scheduling creates the extensions in the schemas that Supabase uses'
);
select results_eq(
  'select jobname, schedule, command, active, username from cron.job order by jobid',
  $$
    values
      ('billing-worker', '* * * * *', 'select billing.wake_worker()', true, 'postgres'),
      ('billing-prune', '*/5 * * * *', 'select billing.prune()', true, 'postgres')
  $$,
  'scheduling makes two jobs, without a key'
);
select lives_ok(command, format('the job %s runs', jobname)) from cron.job order by jobid;
select results_eq(
  $$select method, url, headers ->> 'apikey', timeout_milliseconds from net.http_request_queue$$,
  $$values ('POST', 'https://ref.supabase.co/functions/v1/billing-worker', 'sb_secret_1', 5000)$$,
  'a wake calls the worker with the key from Vault, and does not wait long'
);
select is_empty(
  $$select secret from vault.secrets where secret like '%sb_secret%'$$,
  'Vault encrypts the key'
);

select pg_temp.calls();

select matches(
  billing.retry_failed_event('tap_1'),
  '^Retry requested: 1\. The worker is on its way\.',
  'a retry says that it wakes the worker'
);
select results_eq(
  'select url from net.http_request_queue',
  $$values ('https://ref.supabase.co/functions/v1/billing-worker?queue=retries')$$,
  'it does so once, for one queue, unlike the schedule'
);
select pg_temp.calls();

select matches(
  billing.retry_failed_events(of_error_code => 'tap_code'),
  '^Retry requested: 2\. The worker is on its way\.',
  'a retry of many says so too'
);
select is(pg_temp.calls(), 1, 'it wakes the worker once');

select billing.resolve_failed_event('tap_2', 'a test', 'somebody');
select billing.retry_failed_events(of_error_code => 'tap_none');
select is(pg_temp.calls(), 0, 'no worker is woken without a retry');

-- A run whose time is over wakes it for another one that has asked for its queue.
select billing.hold_lease('retries', pg_temp.run(1)), billing.hold_lease('retries', pg_temp.run(2));
select ok(not public.billing_release_lease('retries', pg_temp.run(n)), format('run %s ends', n))
from unnest('{2,1}'::integer[]) as n;
select is(pg_temp.calls(), 1, 'only the run that has the queue wakes the next');

select public.billing_release_lease('retries', pg_temp.run(1));
select is(pg_temp.calls(), 0, 'a run wakes the next only once');

-- A role that may not read Vault, and service_role.

grant usage on schema billing to authenticated;
grant execute on function billing.wake_worker to authenticated;
set local role authenticated;
select ok(not billing.wake_worker(), 'a wake that may not read Vault does nothing');

set local role service_role;
select ok(billing.wake_worker(), 'the functions may wake the worker');

reset role;

-- Again, or only partly on.
select pg_temp.schedule('sb_secret_2');
select results_eq(
  $$select decrypted_secret from vault.decrypted_secrets where name = 'billing_worker_key'$$,
  $$values ('sb_secret_2')$$,
  'scheduling again replaces the key'
);
select is((select count(*)::integer from cron.job), 2, 'scheduling again adds no job');

drop extension pg_net;
select ok(not billing.wake_worker(), 'without pg_net, a wake does nothing');

create schema net;
select ok(not billing.wake_worker(), 'nor with an empty schema net');

create function net.http_post(url text) returns bigint language sql as 'select 1::bigint';
update billing.failed_events set retry_requested_at = null;
select matches(
  billing.retry_failed_event('tap_1'),
  'The worker retries it at its next run',
  'a retry whose wake fails waits for the next run'
);
select is(
  (select count(retry_requested_at)::integer from billing.failed_events),
  1,
  'it is requested'
);

drop function net.http_post;
-- As Vault does in a project that was restored elsewhere.
create function net.http_post(url text, body jsonb, headers jsonb, timeout_milliseconds integer)
returns bigint language plpgsql as $$
begin
  assert url !~ 'retries', 'invalid ciphertext';
  raise exception 'invalid ciphertext' using errcode = '22023';
end;
$$;

select pg_temp.file('lacking_' || i, 'account_unknown', 'sub_' || i, jsonb_build_object(
  'kind', 'creation',
  'customer_id', 'cus_' || i
))
from generate_series(1, 2) as i;
select ok(
  not billing.wake_worker() and not billing.wake_worker('notifications'),
  'a wake that raises an error does nothing'
);

select matches(
  billing.retry_failed_events(of_error_code => 'tap_code'),
  '^Retry requested: 1\. The worker retries it at its next run',
  'then a retry waits for the next run'
);

insert into billing.customers (provider, customer_id, account_id) values ('a', 'cus_1', 'acc_1');
select lives_ok('set constraints all immediate', 'the app may add a customer');

set constraints all deferred;
select is(
  pg_temp.apply(pg_temp.event('tap_c', 'checkout', null, null, '{
    "account_id": "acc_2",
    "report": {"customer_id": "cus_2"}
  }')),
  'applied',
  'a checkout is applied'
);
select set_has(
  'select event_id from billing.failed_events where retry_requested_at is not null',
  $$values ('tap_1'), ('lacking_1'), ('lacking_2')$$,
  'all these retries are requested'
);

select billing.hold_lease('retries', pg_temp.run(1)), billing.hold_lease('retries', pg_temp.run(2));
select ok(not public.billing_release_lease('retries', pg_temp.run(1)), 'a run ends');

-- As a statement that took too long.
create
  or replace function net.http_post(
    url text,
    body jsonb,
    headers jsonb,
    timeout_milliseconds integer
  )
returns bigint language plpgsql as $$ begin raise query_canceled; end $$;
select ok(not billing.wake_worker(), 'a wake that is canceled does nothing');

drop schema net cascade;
create extension pg_net schema public;
select lives_ok('select pg_temp.schedule()', 'pg_net may be in any schema');
select ok(billing.wake_worker(), 'a wake finds pg_net in another schema');

-- Runs that pg_cron keeps.
insert into cron.job_run_details (jobid, command, start_time, end_time)
select j.jobid, t.what, now() - t.began, now() - t.ended
from cron.job j,
  (
    values
      ('old', interval '26 h', interval '25 h'),
      ('new', interval '25 h', interval '23 h'),
      ('lost', interval '25 h', null),
      ('never begun', null, null)
  ) as t (what, began, ended);
insert into cron.job_run_details (jobid, command, end_time)
values (-1, 'of the app', now() - interval '9 years');
select billing.prune();
select set_eq(
  'select command from cron.job_run_details',
  array['new', 'of the app'],
  'pruning deletes old runs of our own jobs only'
);
select matches(
  billing.unschedule_worker(),
  'Only the webhook still wakes',
  'the schedule can be undone'
);
select is_empty('select 1 from cron.job', 'unscheduling deletes the jobs');
select is_empty('select 1 from vault.secrets', 'unscheduling deletes the secrets');
select ok(not billing.wake_worker(), 'after unscheduling, a wake does nothing');

create function pg_temp.sweep()
returns boolean language sql volatile as $$
  select public.billing_settle_sweep(
    '5eed0000-0000-4000-8000-000000000000', 'a', 'api.test',
    '{"goes_on": true, "types": {}, "rests_seconds": 0}'
  );
  select goes_on from public.billing_claim_sweep(
    '5eed0000-0000-4000-8000-000000000000', 'a', 'api.test'
  )
$$;
select pg_temp.sweep();
select ok(pg_temp.sweep(), 'a sweep goes on where the last one stopped');

-- pg_cron of another version, or half restored.
drop extension pg_cron;
create schema cron;
create table cron.job_run_details (runid bigint);
update billing.processed_events set processed_at = '2020-01-01';
select is(
  (select ledger_rows from billing.prune()),
  1::bigint,
  'pruning goes on if runs of jobs cannot be deleted'
);

select * from finish();
rollback;
