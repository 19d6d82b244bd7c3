-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000021_billing_0021_claim_notifications.sql

CREATE OR REPLACE FUNCTION public.notification_waits()
 RETURNS interval[]
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
  select '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];
$function$;

comment on function public.notification_waits() is 'Returns the waits between the attempts to deliver a notification. It is dead after the last attempt, about three days later.';

revoke all on function public.notification_waits() from public;

grant EXECUTE on function public.notification_waits() to service_role;
