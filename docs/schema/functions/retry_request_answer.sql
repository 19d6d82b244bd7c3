-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000018_billing_0018_retry_failed_event.sql
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.retry_request_answer(asked integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  return format('Retry requested: %s. ', asked)
    || case
      when public.wake_billing_worker() then 'The worker is on its way.'
      else 'The worker retries it at its next run.'
    end
    || ' See: select event_id, error, attempts, resolved_at from public.failed_events order by last_failed_at desc;';
end;
$function$;

comment on function public.retry_request_answer(integer) is 'Wakes the worker after a retry was requested. Returns what happens next.';

revoke all on function public.retry_request_answer(integer) from public;

grant EXECUTE on function public.retry_request_answer(integer) to service_role;
