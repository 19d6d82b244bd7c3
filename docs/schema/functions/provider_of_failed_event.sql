-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000018_billing_0018_retry_failed_event.sql
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.provider_of_failed_event(event_id text, of_provider text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  providers text[];
begin
  -- Open failures, or resolved ones if none is open.
  select array_agg(f.provider order by f.provider) into providers
  from public.failed_events f
  where f.event_id = provider_of_failed_event.event_id
    and (of_provider is null or f.provider = of_provider)
  group by f.resolved_at is null
  order by f.resolved_at is null desc
  limit 1;

  if providers is null then
    raise exception 'No failed event has the id %.', provider_of_failed_event.event_id
        || coalesce(' (provider ' || of_provider || ')', '')
      using hint = 'select provider, event_id, error from public.open_failures;';
  end if;
  if cardinality(providers) > 1 then
    raise exception 'Providers % both have a failed event with the id %: add of_provider.',
        array_to_string(providers, ' and '), provider_of_failed_event.event_id
      using hint = format('Add: of_provider => %L', providers[1]);
  end if;
  return providers[1];
end;
$function$;

comment on function public.provider_of_failed_event(text,text) is 'Returns the provider of the failed event with this id. Raises an error if there is none, or if both providers have one and of_provider is missing.';

revoke all on function public.provider_of_failed_event(text,text) from public;

grant EXECUTE on function public.provider_of_failed_event(text,text) to service_role;
