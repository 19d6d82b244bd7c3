/*
 * schedule_billing_worker, against stand-ins with the signatures of pg_cron,
 * pg_net and Vault, which a plain Postgres does not have.
 */
begin;
select plan(14);

select throws_ok(
  $$select public.schedule_billing_worker('https://ref.supabase.co', 'sb_secret_1')$$,
  '0A000', null,
  'without pg_cron it says so'
);
select ok(not public.wake_billing_worker(), 'without pg_net and Vault nobody is woken, and nothing fails');
select lives_ok('select public.unschedule_billing_worker()', 'there is nothing to undo, and nothing fails');

create schema cron;
create table cron.job (jobname text primary key, schedule text, command text);
create function cron.schedule(job_name text, schedule text, command text) returns bigint
language sql as $$
  insert into cron.job values (job_name, schedule, command)
  on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command
  returning 1::bigint
$$;
create function cron.unschedule(job_name text) returns boolean
language sql as $$ delete from cron.job where jobname = job_name returning true $$;

create schema vault;
create table vault.secrets (id uuid primary key default gen_random_uuid(), name text unique, secret text);
create view vault.decrypted_secrets as select id, name, secret as decrypted_secret from vault.secrets;
create function vault.create_secret(
  new_secret text, new_name text default null, new_description text default '', new_key_id uuid default null
) returns uuid
language sql as $$ insert into vault.secrets (name, secret) values (new_name, new_secret) returning id $$;
create function vault.update_secret(
  secret_id uuid, new_secret text default null, new_name text default null,
  new_description text default null, new_key_id uuid default null
) returns void
language sql as $$ update vault.secrets set secret = new_secret where id = secret_id $$;

create schema net;
create table net.calls (url text, headers jsonb, timeout_milliseconds integer);
create function net.http_post(
  url text, body jsonb default '{}', params jsonb default '{}', headers jsonb default '{}',
  timeout_milliseconds integer default 5000
) returns bigint
language sql as $$
  insert into net.calls values (url, headers, timeout_milliseconds) returning 1::bigint
$$;

select ok(not public.wake_billing_worker(), 'nobody is woken before it is scheduled');
select throws_like(
  $$select public.schedule_billing_worker('https://ref.supabase.co/functions/v1/x', 'sb_secret_1')$$,
  '%without a path%', 'a URL with a path is refused'
);
select throws_like(
  $$select public.schedule_billing_worker('https://ref.supabase.co', 'sb_publishable_1')$$,
  '%secret key%', 'a publishable key is refused'
);

select matches(
  public.schedule_billing_worker('https://ref.supabase.co/', 'sb_secret_1'), 'every minute',
  'it says what it did'
);
select results_eq(
  'select jobname, schedule, command from cron.job',
  $$values
    ('billing-worker', '* * * * *', 'select public.wake_billing_worker()'),
    ('billing-prune', '*/5 * * * *', 'select public.prune_billing_tables()')$$,
  'it schedules the worker and the pruning, and neither job holds a key'
);
select ok(public.wake_billing_worker(), 'the job wakes the worker');
select results_eq(
  $$select url, headers ->> 'apikey' from net.calls$$,
  $$values ('https://ref.supabase.co/functions/v1/billing-worker', 'sb_secret_1')$$,
  'with the key from Vault, at the worker''s URL'
);

select public.schedule_billing_worker('https://ref.supabase.co', 'sb_secret_2');
select results_eq(
  $$select decrypted_secret from vault.decrypted_secrets where name = 'billing_worker_key'$$,
  $$values ('sb_secret_2')$$, 'run again, it replaces the key'
);
select is((select count(*)::int from cron.job), 2, 'and schedules no job a second time');

select public.unschedule_billing_worker();
select is_empty('select 1 from cron.job', 'undone, there is no job');
select is_empty('select 1 from vault.secrets', 'and nothing of it is left in Vault');

select * from finish();
rollback;
