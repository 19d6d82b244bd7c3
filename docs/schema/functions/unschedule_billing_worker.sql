-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000025_billing_0025_schedule_billing_worker.sql

CREATE OR REPLACE FUNCTION public.unschedule_billing_worker()
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

comment on function public.unschedule_billing_worker() is 'Undoes schedule_billing_worker, and deletes its secrets from Vault.';

revoke all on function public.unschedule_billing_worker() from public;
