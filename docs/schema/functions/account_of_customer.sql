-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000003_billing_0030_account_of_customer.sql

CREATE OR REPLACE FUNCTION public.account_of_customer(provider text, customer_id text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  select case when count(distinct s.account_id) = 1 then min(s.account_id) end
  from public.subscriptions s
  where s.provider = account_of_customer.provider
    and s.customer_id = account_of_customer.customer_id
$function$;

comment on function public.account_of_customer(text,text) is 'Returns the account of a customer, for a subscription that is created without metadata.accountId; null if it is not known. Replace this function if your project knows its customers'' accounts. Called by apply_subscription_created.';

revoke all on function public.account_of_customer(text,text) from public;

grant EXECUTE on function public.account_of_customer(text,text) to service_role;
