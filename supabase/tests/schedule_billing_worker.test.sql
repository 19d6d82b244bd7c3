/*
 * schedule_billing_worker on a project where the extensions are off, on, or in
 * part on. A plain Postgres does not have them: tests/support/extensions stands
 * for them, with their control files, signatures and privileges. The runbook's
 * tests show what it says where there are none.
 */
begin;
select plan(28);

create function pg_temp.schedule(p_key text default 'sb_secret_1')
returns text
language sql
as $$ select public.schedule_billing_worker('https://ref.supabase.co/', p_key) $$;

-- Off.

select is_empty(
  $$select extname from pg_extension where extname in ('pg_cron', 'pg_net', 'supabase_vault')$$,
  'there are no extensions yet'
);
select ok(not public.wake_billing_worker(), 'without pg_net and Vault nobody is woken, and nothing fails');
select lives_ok('select public.unschedule_billing_worker()', 'there is nothing to undo, and nothing fails');
select throws_like(
  $$select public.schedule_billing_worker('https://ref.supabase.co/functions/v1/x', 'sb_secret_1')$$,
  '%without a path%', 'a URL with a path is refused'
);
select throws_like(
  format('select public.schedule_billing_worker(%L, %L)', url, 'sb_secret_1'),
  '%must begin with https%', format('%s would get the key unencrypted', url)
)
from unnest(array['http://ref.supabase.co', 'http://localhost.example', 'http://127.0.0.1.example:80']) as url;
select throws_like(
  format('select public.schedule_billing_worker(%L, %L)', url, 'sb_publishable_1'),
  '%secret key%', format('%s is taken', url)
)
from unnest(array['http://127.0.0.1:54321', 'http://kong:8000/']) as url;
select throws_like(
  $$select public.schedule_billing_worker('https://ref.supabase.co', 'sb_publishable_1')$$,
  '%secret key%', 'a publishable key is refused'
);
select is_empty(
  $$select extname from pg_extension where extname in ('pg_cron', 'pg_net', 'supabase_vault')$$,
  'what is refused switches nothing on'
);

select matches(pg_temp.schedule(), 'every minute', 'where they are off it switches them on, and says what it did');
select set_eq(
  $$select e.extname::text, e.extnamespace::regnamespace::text
    from pg_extension e where e.extname in ('pg_cron', 'pg_net', 'supabase_vault')$$,
  $$values ('pg_cron', 'pg_catalog'), ('pg_net', 'extensions'), ('supabase_vault', 'vault')$$,
  'each is in the schema where Supabase puts it'
);
select results_eq(
  'select jobname, schedule, command, active, username from cron.job order by jobid',
  $$values
    ('billing-worker', '* * * * *', 'select public.wake_billing_worker()', true, 'postgres'),
    ('billing-prune', '*/5 * * * *', 'select public.prune_billing_tables()', true, 'postgres')$$,
  'it schedules the worker and the pruning, and neither job holds a key'
);
select lives_ok(command, format('the job %s runs', jobname)) from cron.job order by jobid;
select results_eq(
  $$select method, url, headers ->> 'apikey', timeout_milliseconds from net.http_request_queue$$,
  $$values ('POST', 'https://ref.supabase.co/functions/v1/billing-worker', 'sb_secret_1', 5000)$$,
  'the worker is called with the key from Vault, at its URL, and pg_net does not wait for the turn'
);
select is_empty(
  $$select secret from vault.secrets where secret like '%sb_secret%'$$, 'the key is not in clear text'
);

-- On.

select pg_temp.schedule('sb_secret_2');
select results_eq(
  $$select decrypted_secret from vault.decrypted_secrets where name = 'billing_worker_key'$$,
  $$values ('sb_secret_2')$$, 'run again, it replaces the key'
);
select is((select count(*)::int from cron.job), 2, 'and schedules no job a second time');

-- Only some are enabled: pg_net was disabled, and the data of the other two is kept.

drop extension pg_net;
select ok(not public.wake_billing_worker(), 'with pg_net switched off nobody is woken, and nothing fails');
select pg_temp.schedule();
select ok(public.wake_billing_worker(), 'run again, it switches pg_net on');
select is((select count(*)::int from cron.job), 2, 'and leaves the jobs as they are');

drop extension pg_net;
create schema net;
select ok(not public.wake_billing_worker(), 'a schema of that name is not pg_net');
drop schema net;

create extension pg_net schema public;
select lives_ok('select pg_temp.schedule()', 'pg_net may be in any schema');
select ok(public.wake_billing_worker(), 'and is called all the same');

-- Undone.

select public.unschedule_billing_worker();
select is_empty('select 1 from cron.job', 'undone, there is no job');
select is_empty('select 1 from vault.secrets', 'and nothing of it is left in Vault');

select * from finish();
rollback;
