-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000006_billing_0006_merge_update.sql

CREATE OR REPLACE FUNCTION public.merge_update(p_second jsonb, p_held jsonb, p_stated jsonb, p_previous jsonb, OUT settled jsonb, OUT second jsonb)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO ''
AS $function$
declare
  most constant integer := 20;
  field text;
  own jsonb;
  previous jsonb;
  replaced jsonb;
  stated jsonb;
begin
  settled := p_stated;
  second := '{}';
  for field, own in select e.key, e.value from jsonb_each(p_stated) as e loop
    previous := p_previous -> field;
    replaced := coalesce(p_second -> field -> 'replaced', '[]');
    if previous <> own and not replaced @> previous then
      replaced := replaced || previous;
      if jsonb_array_length(replaced) > most then
        replaced := replaced - 0;
      end if;
    end if;

    -- Nothing to compute for a field that did not change.
    continue when own = p_held -> field and replaced = '[]' and p_second -> field is null;

    select coalesce(jsonb_agg(s.value order by s.arrival), '[]') into stated
    from (
      select e.value, max(e.arrival) as arrival
      from jsonb_array_elements(
        coalesce(p_second -> field -> 'stated', '[]') || jsonb_build_array(p_held -> field, own)
      ) with ordinality as e (value, arrival)
      where not replaced @> e.value
      group by e.value
      order by arrival desc
      limit most + 1
    ) as s;
    settled := settled || jsonb_build_object(field, coalesce(stated -> -1, own));
    stated := stated - -1;
    second := second || jsonb_build_object(field, jsonb_strip_nulls(
      jsonb_build_object('replaced', nullif(replaced, '[]'), 'stated', nullif(stated, '[]'))
    ));
  end loop;
end;
$function$;

comment on function public.merge_update(jsonb,jsonb,jsonb,jsonb) is 'Returns the values that the updates of one second leave, and the new memory of that second. p_second: its memory so far. p_held: the values in the record, from the other updates. p_stated, p_previous: the values that this update states, and those that it replaced. Called by apply_subscription_updated.';

revoke all on function public.merge_update(jsonb,jsonb,jsonb,jsonb) from public;

grant EXECUTE on function public.merge_update(jsonb,jsonb,jsonb,jsonb) to service_role;
