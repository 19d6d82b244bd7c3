-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000014_billing_0014_has_long_number.sql

CREATE OR REPLACE FUNCTION public.has_long_number(payload jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
begin
  return exists (
    select
    from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as found (number)
    where abs(found.number::numeric) >= 1e40 or scale(found.number::numeric) > 40
  );
end;
$function$;

comment on function public.has_long_number(jsonb) is 'Returns whether a number in the payload has more than 40 digits before or after the decimal point. Such a payload is stored as text.';

revoke all on function public.has_long_number(jsonb) from public;

grant EXECUTE on function public.has_long_number(jsonb) to service_role;
