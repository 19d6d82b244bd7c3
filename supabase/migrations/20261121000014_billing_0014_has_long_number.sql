/*
 * `1e131071` has eight characters in the request. In jsonb it stays small, but as
 * text it has 131,072 digits, so reading an event with a few thousand such
 * numbers exhausts the memory. No field of an event needs a number of more than
 * 40 digits. This finds such numbers without converting them to text.
 */
create function public.has_long_number(payload jsonb)
returns boolean
language plpgsql
immutable
set search_path = ''
as $$
begin
  return exists (
    select
    from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as found (number)
    where abs(found.number::numeric) >= 1e40 or scale(found.number::numeric) > 40
  );
end;
$$;

revoke all on function public.has_long_number(jsonb) from public, anon, authenticated, service_role;
grant execute on function public.has_long_number(jsonb) to service_role;

comment on function public.has_long_number(jsonb) is
  'Returns whether a number in the payload has more than 40 digits before or after the decimal point. Such a payload is stored as text.';
