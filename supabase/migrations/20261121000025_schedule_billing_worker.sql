/*
 * Wakes the worker every minute on a Supabase project: pg_cron keeps the time,
 * pg_net makes the call, Vault keeps the key. None of them is there on a plain
 * Postgres, so nothing here touches them before it is asked to.
 *
 * The call is fire and forget. What it wakes is idempotent and claims its work
 * in the database, so a call that is lost or doubled does no harm. It waits 5 s
 * for an answer, however long the turn takes: a long wait may hold up the
 * project's other calls through pg_net, and the worker goes on without it.
 */
create function public.wake_billing_worker()
returns boolean
language plpgsql
volatile
set search_path = ''
as $$
declare
  worker_url text;
  worker_key text;
begin
  if to_regclass('vault.decrypted_secrets') is null or to_regproc('net.http_post') is null then
    return false;
  end if;
  execute $sql$
    select
      max(s.decrypted_secret) filter (where s.name = 'billing_worker_url'),
      max(s.decrypted_secret) filter (where s.name = 'billing_worker_key')
    from vault.decrypted_secrets s
  $sql$ into worker_url, worker_key;
  if worker_url is null or worker_key is null then
    return false;
  end if;
  execute $sql$
    select net.http_post(
      url := $1,
      body := '{}'::jsonb,
      headers := jsonb_build_object('content-type', 'application/json', 'apikey', $2),
      timeout_milliseconds := 5000
    )
  $sql$ using worker_url, worker_key;
  return true;
end;
$$;

revoke all on function public.wake_billing_worker()
  from public, anon, authenticated, service_role;

comment on function public.wake_billing_worker() is
  'Asks the worker for a turn, without waiting for it. False where schedule_billing_worker was not run.';

create function public.schedule_billing_worker(project_url text, secret_key text)
returns text
language plpgsql
volatile
set search_path = ''
as $$
declare
  secret record;
  existing_id uuid;
begin
  if project_url !~ '^https?://[^/]+/?$' then
    raise exception 'The project URL must look like https://<project-ref>.supabase.co, without a path.';
  end if;
  if secret_key !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...), from Project Settings, API Keys.';
  end if;

  -- Each where Supabase itself puts it. A control file that names no schema,
  -- as pg_net's, takes the first of search_path, which is empty here. Asked
  -- first, since what Supabase runs after pg_cron is created makes it anew.
  if not exists (select from pg_extension e where e.extname = 'pg_cron') then
    create extension pg_cron schema pg_catalog;
  end if;
  if not exists (select from pg_extension e where e.extname = 'pg_net') then
    create extension pg_net schema extensions;
  end if;
  -- This one names its schema, and makes it.
  if not exists (select from pg_extension e where e.extname = 'supabase_vault') then
    create extension supabase_vault cascade;
  end if;

  for secret in
    values
      ('billing_worker_url', rtrim(project_url, '/') || '/functions/v1/billing-worker'),
      ('billing_worker_key', secret_key)
  loop
    execute 'select s.id from vault.secrets s where s.name = $1'
      into existing_id using secret.column1;
    if existing_id is null then
      execute 'select vault.create_secret($1, $2)' using secret.column2, secret.column1;
    else
      execute 'select vault.update_secret($1, $2)' using existing_id, secret.column2;
    end if;
  end loop;

  execute $sql$
    select
      cron.schedule('billing-worker', '* * * * *', 'select public.wake_billing_worker()'),
      cron.schedule('billing-prune', '*/5 * * * *', 'select public.prune_billing_tables()')
  $sql$;
  return 'The worker is woken every minute, and old rows are pruned. Undo it with: select public.unschedule_billing_worker();';
end;
$$;

revoke all on function public.schedule_billing_worker(text, text)
  from public, anon, authenticated, service_role;

comment on function public.schedule_billing_worker(text, text) is
  'Run once in the SQL editor: wakes the worker every minute, and prunes the tables. Again, it replaces URL and key.';

create function public.unschedule_billing_worker()
returns text
language plpgsql
volatile
set search_path = ''
as $$
begin
  if to_regclass('cron.job') is not null then
    execute $sql$
      select cron.unschedule(j.jobname) from cron.job j
      where j.jobname in ('billing-worker', 'billing-prune')
    $sql$;
  end if;
  if to_regclass('vault.secrets') is not null then
    execute $sql$
      delete from vault.secrets s where s.name in ('billing_worker_url', 'billing_worker_key')
    $sql$;
  end if;
  return 'The worker is not woken any more, and nothing is pruned. Payment failures still wake it when they arrive.';
end;
$$;

revoke all on function public.unschedule_billing_worker()
  from public, anon, authenticated, service_role;

comment on function public.unschedule_billing_worker() is
  'Undoes schedule_billing_worker, and deletes what it put into Vault.';
