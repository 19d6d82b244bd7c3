-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000016_billing_0016_keep_original_payload.sql

CREATE OR REPLACE FUNCTION public.keep_original_payload()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is already resolved (%).', new.event_id, new.resolution
      using hint = 'Nothing was changed. To retry an event that was resolved by hand, reopen it first: see docs/runbook.md.';
  end if;
  if public.has_long_number(new.payload) then
    raise exception 'Cannot repair %: the payload has a number of more than 40 digits.', new.event_id
      using hint = 'Nothing was changed. Remove the number, or write it as a string.';
  end if;
  new.original_payload := coalesce(old.original_payload, old.payload);
  if jsonb_typeof(new.payload) = 'object' then
    new.payload_encoding := 'json';
    new.type := new.payload ->> 'type';
  end if;
  new.retry_leased_until := null;
  new.retry_lease_id := null;
  return new;
end;
$function$;

comment on function public.keep_original_payload() is 'Trigger of failed_events: keeps the received payload in original_payload when payload is repaired. Raises an error if the row is resolved.';

revoke all on function public.keep_original_payload() from public;
