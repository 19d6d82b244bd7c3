-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000004_billing_0031_apply_subscription_created.sql

CREATE OR REPLACE FUNCTION public.apply_subscription_created(p_provider text, p_created timestamp with time zone, p_subscription_id text, p_account_id text, p_plan_id text, p_current_period_end timestamp with time zone, p_provider_status text DEFAULT NULL::text, p_customer_id text DEFAULT NULL::text, p_quantity integer DEFAULT NULL::integer, p_cancel_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_trial_end timestamp with time zone DEFAULT NULL::timestamp with time zone, p_paused text DEFAULT NULL::text, p_livemode boolean DEFAULT NULL::boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  subscription public.subscriptions;
  account text := p_account_id;
  owns_plan boolean;
  owns_status boolean;
begin
  -- Look for the record first: `on conflict` would wait for a transaction that
  -- is changing it.
  perform from public.subscriptions s where s.id = p_subscription_id;
  if not found then
    if account is null and p_customer_id is not null then
      account := public.account_of_customer(p_provider, p_customer_id);
    end if;
    if account is null then
      raise exception 'data.object.metadata.accountId is missing, and account_of_customer knows no account of the customer.'
        using errcode = 'BW005';
    end if;
    insert into public.subscriptions (
      id, provider, account_id, status, plan_id, current_period_end,
      provider_status, customer_id, quantity, cancel_at, trial_end, paused, livemode,
      account_as_of, changed_as_of
    )
    values (
      p_subscription_id, p_provider, account, 'active', p_plan_id, p_current_period_end,
      p_provider_status, p_customer_id, p_quantity, p_cancel_at, p_trial_end, p_paused, p_livemode,
      case when p_account_id is not null then p_created end, p_created
    )
    on conflict (id) do nothing;
    if found then
      return 'applied';
    end if;
  end if;

  subscription := public.find_subscription(p_provider, p_subscription_id);
  if p_created is null then
    return 'stale';
  end if;

  -- If the account is newer, then the other fields are newer too.
  if p_created < subscription.account_as_of then
    return 'stale';
  end if;
  owns_plan := subscription.changed_as_of is null
    or p_created > subscription.changed_as_of
    or (p_created = subscription.changed_as_of and not subscription.changed_by_update);
  owns_status := owns_plan
    and (subscription.canceled_as_of is null or p_created > subscription.canceled_as_of);
  if p_account_id is null and not owns_plan then
    return 'stale';
  end if;

  update public.subscriptions s set
    account_id = coalesce(p_account_id, s.account_id),
    account_as_of = case when p_account_id is not null then p_created else s.account_as_of end,
    status = case when owns_status then 'active' else s.status end,
    plan_id = case when owns_plan then p_plan_id else s.plan_id end,
    current_period_end = case when owns_plan then p_current_period_end else s.current_period_end end,
    provider_status = case when owns_plan then p_provider_status else s.provider_status end,
    customer_id = case when owns_plan then p_customer_id else s.customer_id end,
    quantity = case when owns_plan then p_quantity else s.quantity end,
    cancel_at = case when owns_plan then p_cancel_at else s.cancel_at end,
    trial_end = case when owns_plan then p_trial_end else s.trial_end end,
    paused = case when owns_plan then p_paused else s.paused end,
    livemode = case when owns_plan then p_livemode else s.livemode end,
    changed_as_of = case when owns_plan then p_created else s.changed_as_of end,
    changed_by_update = s.changed_by_update and not owns_plan,
    changed_in_second = case when owns_plan then '{}' else s.changed_in_second end
  where s.id = p_subscription_id;
  return 'applied';
end;
$function$;

comment on function public.apply_subscription_created(text,timestamp with time zone,text,text,text,timestamp with time zone,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) is 'Applies customer.subscription.created; returns applied or stale. Raises BW005 if neither the event nor account_of_customer says whose it is. Called by apply_billing_events, which holds the claim and the lock.';

revoke all on function public.apply_subscription_created(text,timestamp with time zone,text,text,text,timestamp with time zone,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) from public;

grant EXECUTE on function public.apply_subscription_created(text,timestamp with time zone,text,text,text,timestamp with time zone,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) to service_role;
