-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000018_billing_0018_retry_failed_event.sql
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.retry_failed_event(event_id text, of_provider text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  named_provider text;
  asked integer;
begin
  named_provider := public.provider_of_failed_event(event_id => retry_failed_event.event_id, of_provider => of_provider);
  update public.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now())
  where f.provider = named_provider
    and f.event_id = retry_failed_event.event_id
    and f.resolved_at is null and f.payload is not null;
  get diagnostics asked = row_count;

  if asked = 0 then
    perform 1 from public.failed_events f
    where f.provider = named_provider and f.event_id = retry_failed_event.event_id
      and f.resolved_at is not null;
    if found then
      return 'It is already resolved: nothing to retry.';
    end if;
    raise exception 'Cannot retry %: its payload was pruned.', retry_failed_event.event_id
      using hint = 'Have the provider send the event again.';
  end if;
  return public.retry_request_answer(asked);
end;
$function$;

comment on function public.retry_failed_event(text,text) is 'Run in the SQL editor or by the console: requests a retry of an open failure. Raises an error if no failed event has this id, if both providers have one and of_provider is missing, or if the payload was pruned.';

revoke all on function public.retry_failed_event(text,text) from public;

grant EXECUTE on function public.retry_failed_event(text,text) to service_role;
