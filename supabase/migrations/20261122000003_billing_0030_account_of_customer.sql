/*
 * Returns the account of a provider's customer, for a subscription that is
 * created without metadata.accountId: from a payment link, a pricing table or the
 * provider's dashboard. THE ONE PLACE TO CHANGE for a project that knows its
 * customers better, such as from a table of its own: replace the query, and keep
 * name, arguments and grants.
 *
 * By default, the account is that of the customer's other subscriptions, ended
 * ones included. If they have different accounts, it is null: a wrong account
 * would give a stranger what somebody else paid for.
 *
 * If it returns null, the creation fails (BW005) until an account is known. It
 * runs while the locks of the call are held, so it must be quick. If it raises an
 * error, only the event fails.
 */
create function public.account_of_customer(provider text, customer_id text)
returns text
language sql
stable
set search_path = ''
as $$
  select case when count(distinct s.account_id) = 1 then min(s.account_id) end
  from public.subscriptions s
  where s.provider = account_of_customer.provider
    and s.customer_id = account_of_customer.customer_id
$$;

revoke all on function public.account_of_customer(text, text)
  from public, anon, authenticated, service_role;
grant execute on function public.account_of_customer(text, text) to service_role;

comment on function public.account_of_customer(text, text) is
  'Returns the account of a customer, for a subscription that is created without metadata.accountId; null if it is not known. Replace this function if your project knows its customers'' accounts. Called by apply_subscription_created.';

comment on column public.subscriptions.account_id is
  'The owning account: metadata.accountId of the newest creation that has it, or else the answer of account_of_customer.';
comment on column public.subscriptions.account_as_of is
  'Ordering: event time of the creation that account_id came from; null if it had none, or if account_of_customer was asked.';
