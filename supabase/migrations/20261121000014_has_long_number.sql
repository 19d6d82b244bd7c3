/*
 * `1e131071` has eight characters on the wire. In jsonb it stays small, but as
 * text it has 131,072 digits, so that an event of a few thousand such numbers
 * exhausts the memory of whoever reads it. No field of an event needs a number
 * of more than 40 digits, and this finds those that have more without writing
 * one out.
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
  'Whether a number in it has more than 40 digits before or behind the point. Such a payload is kept as text.';
