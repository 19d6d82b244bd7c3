-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000027_billing_0054_billing_version.sql

CREATE OR REPLACE FUNCTION public.billing_version()
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select '0054'
$function$;

comment on function public.billing_version() is 'The number of the newest migration of the receiver that this database has.';

revoke all on function public.billing_version() from public;

grant EXECUTE on function public.billing_version() to service_role;
