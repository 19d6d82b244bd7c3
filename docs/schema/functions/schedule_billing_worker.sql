-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000020_billing_0047_schedule_billing_worker.sql

CREATE OR REPLACE FUNCTION public.schedule_billing_worker(project_url text, secret_key text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  secret record;
  existing_id uuid;
begin
  if project_url !~ '^https?://[^/?#@[:space:]]+/?$' then
    raise exception 'The project URL must look like https://<project-ref>.supabase.co, without a path. Copy it from Project Settings, API.';
  end if;
  if project_url !~ '^(https://|http://(localhost|127(\.[0-9]{1,3}){3}|kong|host\.docker\.internal)(:[0-9]+)?/?$)' then
    raise exception 'The project URL must begin with https://, because the secret key is sent to it. Only a local stack may have http://.';
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
$function$;

comment on function public.schedule_billing_worker(text,text) is 'Run once in the SQL editor: schedules the worker every minute, and the pruning of the tables. Run it again to replace URL and key.';

revoke all on function public.schedule_billing_worker(text,text) from public;
