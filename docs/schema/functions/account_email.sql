-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000023_billing_0023_account_email.sql

CREATE OR REPLACE FUNCTION public.account_email(account_id text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO ''
AS $function$
declare
  address text;
begin
  if to_regclass('auth.users') is null
    or account_id !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  then
    return null;
  end if;
  execute 'select nullif(u.email, '''') from auth.users u where u.id = $1::uuid'
    into address using account_id;
  return address;
end;
$function$;

comment on function public.account_email(text) is 'Returns the e-mail address of an account; null if it has none. Replace this function if accounts are not the users of Supabase Auth.';

revoke all on function public.account_email(text) from public;

grant EXECUTE on function public.account_email(text) to service_role;
