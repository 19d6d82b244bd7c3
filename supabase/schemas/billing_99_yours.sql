-- The three functions that are yours to replace. `deno task add` writes this file once and never
-- again, and no later migration contains it. Keep names, arguments and grants. Put your version
-- into a migration of your own.

-- Returns the account of a customer; null if it is unknown. By default, that is the account in
-- billing.customers, or else the only account of the customer's other subscriptions, ended ones
-- included: a wrong one would give a stranger what another account paid for.
--
-- If it returns null, what the provider keeps with the customer counts, or else the event fails
-- until an account is known. It runs while the locks of the call are held, so it must be quick, and
-- find its rows by an index. If it raises an error, only the event fails.
create or replace function billing.account_of_customer(provider text, customer_id text)
returns text
language sql stable
set search_path = ''
as $$
  select coalesce(
    (
      select c.account_id
      from billing.customers c
      where c.provider = account_of_customer.provider
        and c.customer_id = account_of_customer.customer_id
    ),
    (
      select case when count(distinct s.account_id) = 1 then min(s.account_id) end
      from billing.subscriptions s
      where s.provider = account_of_customer.provider
        and s.customer_id = account_of_customer.customer_id
    )
  )
$$;

comment on function billing.account_of_customer is 'Yours to replace.';

-- Returns the e-mail address of an account; null if it has none. By default, an account is a user
-- of Supabase Auth. service_role may not read auth.users, so this function runs with the rights of
-- its owner (security definer). Without an auth schema, no account has an address.
create or replace function billing.account_email(account_id text)
returns text
language plpgsql stable security definer
set search_path = ''
as $$
declare
  address text;
begin
  if to_regclass('auth.users') is not null
    and account_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  then
    execute 'select nullif(u.email, '''') from auth.users u where u.id = $1::uuid'
    into address
    using account_id;
  end if;
  return address;
end;
$$;

comment on function billing.account_email is 'Yours to replace.';

create or replace function public.billing_default_grace()
returns interval
language sql stable
set search_path = ''
as $$
  select interval '0'
$$;

comment on function public.billing_default_grace is
  'How long past_due keeps access by default. Yours to replace.';

revoke execute on function public.billing_default_grace from public, anon, authenticated;
grant execute on function public.billing_default_grace to service_role;
revoke execute on function billing.account_of_customer, billing.account_email from public;
grant execute on function billing.account_of_customer, billing.account_email to service_role;
