/*
 * Wakes the worker every minute on a Supabase project: pg_cron runs the schedule,
 * pg_net makes the call, Vault stores the key. A plain Postgres has none of them,
 * so nothing here uses them before schedule_billing_worker is run.
 *
 * The call is fire and forget. The worker claims its work in the database, so a
 * lost or duplicate call does no harm. The call waits 5 s for a reply, however
 * long the worker runs: a long wait may delay the project's other calls through
 * pg_net, and the worker goes on without it.
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
  'Wakes the worker without waiting for it. Returns false if schedule_billing_worker was not run.';

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
    raise exception 'The project URL must look like https://<project-ref>.supabase.co, without a path. Copy it from Project Settings, API.';
  end if;
  if secret_key !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...). Copy it from Project Settings, API Keys.';
  end if;

  -- Each in the schema that Supabase uses. pg_net's control file names no schema,
  -- so it would use the first of search_path, which is empty here. Only if it is
  -- missing, because Supabase runs a script after pg_cron is created.
  if not exists (select from pg_extension e where e.extname = 'pg_cron') then
    create extension pg_cron schema pg_catalog;
  end if;
  if not exists (select from pg_extension e where e.extname = 'pg_net') then
    create extension pg_net schema extensions;
  end if;
  -- This one names its schema and creates it.
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
  'Run once in the SQL editor: schedules the worker every minute, and the pruning of the tables. Run it again to replace URL and key.';

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
  'Undoes schedule_billing_worker, and deletes its secrets from Vault.';
