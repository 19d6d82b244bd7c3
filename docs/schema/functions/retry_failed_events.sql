-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000018_billing_0018_retry_failed_event.sql
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.retry_failed_events(of_type text DEFAULT NULL::text, of_error_code text DEFAULT NULL::text, failed_since timestamp with time zone DEFAULT NULL::timestamp with time zone, failed_until timestamp with time zone DEFAULT NULL::timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  asked integer;
  locked integer;
begin
  with unlocked as materialized (
    select f.provider, f.event_id
    from public.failed_events f
    where f.resolved_at is null
      and f.payload is not null
      and f.retry_requested_at is null
      and (of_type is null or f.type = of_type)
      and (of_error_code is null or f.error_code = of_error_code)
      and (failed_since is null or f.last_failed_at >= failed_since)
      and (failed_until is null or f.last_failed_at < failed_until)
    for update skip locked
  )
  update public.failed_events t set retry_requested_at = now()
  from unlocked u
  where t.provider = u.provider and t.event_id = u.event_id;

  select count(f.retry_requested_at), count(*) - count(f.retry_requested_at) into asked, locked
  from public.failed_events f
  where f.resolved_at is null
    and f.payload is not null
    and (of_type is null or f.type = of_type)
    and (of_error_code is null or f.error_code = of_error_code)
    and (failed_since is null or f.last_failed_at >= failed_since)
    and (failed_until is null or f.last_failed_at < failed_until);

  if locked > 0 then
    return format('Somebody else has locked %s of them: run this again. ', locked)
      || public.retry_request_answer(asked);
  end if;
  if asked = 0 then
    return 'No open failure matches: nothing to retry.';
  end if;
  return public.retry_request_answer(asked);
end;
$function$;

comment on function public.retry_failed_events(text,text,timestamp with time zone,timestamp with time zone) is 'Run in the SQL editor or by the console: requests a retry of all open failures, or of those with a type, an error code or a time of failure, in the order in which the events occurred.';

revoke all on function public.retry_failed_events(text,text,timestamp with time zone,timestamp with time zone) from public;

grant EXECUTE on function public.retry_failed_events(text,text,timestamp with time zone,timestamp with time zone) to service_role;
