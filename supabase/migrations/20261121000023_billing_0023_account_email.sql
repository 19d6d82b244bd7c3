/*
 * Returns the e-mail address of an account. THE ONE PLACE TO CHANGE for a
 * project whose accounts are not its users: replace the query, and keep name,
 * arguments and grants.
 *
 * By default, an account is a user of Supabase Auth. service_role may not read
 * auth.users, so this function runs with the rights of its owner
 * (`security definer`). Without an auth schema, as on the local stack, no account
 * has an address.
 */
create function public.account_email(account_id text)
returns text
language plpgsql
stable
security definer
set search_path = ''
as $$
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
$$;

revoke all on function public.account_email(text)
  from public, anon, authenticated, service_role;
grant execute on function public.account_email(text) to service_role;

comment on function public.account_email(text) is
  'Returns the e-mail address of an account; null if it has none. Replace this function if accounts are not the users of Supabase Auth.';
