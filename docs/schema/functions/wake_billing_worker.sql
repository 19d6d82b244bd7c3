-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.wake_billing_worker()
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
exception when insufficient_privilege then
  return false;
end;
$function$;

comment on function public.wake_billing_worker() is 'Wakes the worker without waiting for it. Returns false if schedule_billing_worker was not run, or if the caller may not use what it needs.';

revoke all on function public.wake_billing_worker() from public;

grant EXECUTE on function public.wake_billing_worker() to service_role;
