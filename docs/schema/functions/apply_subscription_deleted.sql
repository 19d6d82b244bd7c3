-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000009_billing_0009_apply_subscription_deleted.sql

CREATE OR REPLACE FUNCTION public.apply_subscription_deleted(p_provider text, p_created timestamp with time zone, p_subscription_id text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  subscription public.subscriptions;
begin
  subscription := public.find_subscription(p_provider, p_subscription_id);

  if p_created < subscription.canceled_as_of then
    return 'stale';
  end if;

  update public.subscriptions s set
    status = case when p_created < s.changed_as_of then s.status else 'canceled' end,
    canceled_at = now(),
    canceled_as_of = coalesce(p_created, s.canceled_as_of)
  where s.id = p_subscription_id;
  return 'applied';
end;
$function$;

comment on function public.apply_subscription_deleted(text,timestamp with time zone,text) is 'Applies customer.subscription.deleted; returns applied or stale. Called by apply_billing_events, which holds the claim and the lock.';

revoke all on function public.apply_subscription_deleted(text,timestamp with time zone,text) from public;

grant EXECUTE on function public.apply_subscription_deleted(text,timestamp with time zone,text) to service_role;
