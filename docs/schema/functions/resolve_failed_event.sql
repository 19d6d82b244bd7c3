-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000020_billing_0020_resolve_failed_event.sql
-- supabase/migrations/20261122000014_billing_0041_console_functions.sql

CREATE OR REPLACE FUNCTION public.resolve_failed_event(event_id text, reason text, who text DEFAULT CURRENT_USER, of_provider text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  named_provider text;
  resolved integer;
begin
  if coalesce(reason, '') !~ '\S' or coalesce(who, '') !~ '\S' then
    raise exception 'Give a reason and your name: select public.resolve_failed_event(''<event id>'', ''<reason>'', ''<your name>'');';
  end if;
  named_provider := public.provider_of_failed_event(event_id => resolve_failed_event.event_id, of_provider => of_provider);
  update public.failed_events f set
    resolved_at = now(),
    resolution = 'by hand',
    resolution_note = reason,
    resolved_by = who,
    retry_requested_at = null,
    retry_leased_until = null,
    retry_lease_id = null
  where f.provider = named_provider
    and f.event_id = resolve_failed_event.event_id and f.resolved_at is null;
  get diagnostics resolved = row_count;
  if resolved = 0 then
    raise exception 'No open failure has the id %.', resolve_failed_event.event_id
      using hint = 'select event_id, error from public.open_failures;';
  end if;
  return 'Resolved by hand. It opens again if the event fails again.';
end;
$function$;

comment on function public.resolve_failed_event(text,text,text,text) is 'Run in the SQL editor or by the console: resolves an open failure without applying the event; stores the reason and the name. Raises an error if both providers have a failed event with this id and of_provider is missing.';

revoke all on function public.resolve_failed_event(text,text,text,text) from public;

grant EXECUTE on function public.resolve_failed_event(text,text,text,text) to service_role;
