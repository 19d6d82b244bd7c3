-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000005_billing_0005_find_subscription.sql

CREATE OR REPLACE FUNCTION public.find_subscription(p_provider text, p_subscription_id text)
 RETURNS public.subscriptions
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  subscription public.subscriptions;
begin
  select * into subscription
  from public.subscriptions s
  where s.id = p_subscription_id
  for no key update nowait;

  if not found then
    raise exception 'No subscription % is recorded.', p_subscription_id
      using errcode = 'BW001',
      hint = 'Its customer.subscription.created has not been applied. If that event failed, see public.open_failures.';
  end if;
  if subscription.provider <> p_provider then
    raise exception 'Subscription % belongs to provider %, not %.',
      p_subscription_id, subscription.provider, p_provider
      using errcode = 'BW002';
  end if;
  return subscription;
end;
$function$;

comment on function public.find_subscription(text,text) is 'Returns a subscription of a provider, locked. Raises 55P03 if another transaction has locked it, BW001 if it does not exist, BW002 if it belongs to another provider.';

revoke all on function public.find_subscription(text,text) from public;

grant EXECUTE on function public.find_subscription(text,text) to service_role;
