-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000005_billing_0032_apply_subscription_updated.sql

CREATE OR REPLACE FUNCTION public.apply_subscription_updated(p_provider text, p_created timestamp with time zone, p_subscription_id text, p_status text, p_plan_id text, p_current_period_end timestamp with time zone, p_previous jsonb, p_provider_status text DEFAULT NULL::text, p_customer_id text DEFAULT NULL::text, p_quantity integer DEFAULT NULL::integer, p_cancel_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_trial_end timestamp with time zone DEFAULT NULL::timestamp with time zone, p_paused text DEFAULT NULL::text, p_livemode boolean DEFAULT NULL::boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  subscription public.subscriptions;
  past_due timestamptz;
  stated jsonb := jsonb_build_object(
    'status', p_status,
    'plan_id', p_plan_id,
    'current_period_end', extract(epoch from p_current_period_end)::bigint,
    'provider_status', p_provider_status,
    'customer_id', p_customer_id,
    'quantity', p_quantity,
    'cancel_at', extract(epoch from p_cancel_at)::bigint,
    'trial_end', extract(epoch from p_trial_end)::bigint,
    'paused', p_paused,
    'livemode', p_livemode
  );
  held jsonb;
  settled jsonb;
  second jsonb;
begin
  subscription := public.find_subscription(p_provider, p_subscription_id);

  past_due := subscription.past_due_since;
  if p_status = 'past_due' and (
    p_previous ->> 'status' <> p_status
    or (
      p_previous is null
      and (p_created < subscription.changed_as_of) is not true
      and (past_due is null or subscription.provider_status is distinct from p_status)
    )
  ) then
    past_due := greatest(past_due, coalesce(p_created, now()));
  end if;

  if p_created < subscription.changed_as_of then
    if past_due is distinct from subscription.past_due_since then
      update public.subscriptions s set past_due_since = past_due
      where s.id = p_subscription_id;
    end if;
    return 'stale';
  end if;
  second := coalesce(p_previous, '{}');
  if p_created is null or (p_created = subscription.changed_as_of and subscription.changed_by_update) then
    held := jsonb_build_object(
      'status', subscription.status,
      'plan_id', subscription.plan_id,
      'current_period_end', extract(epoch from subscription.current_period_end)::bigint,
      'provider_status', subscription.provider_status,
      'customer_id', subscription.customer_id,
      'quantity', subscription.quantity,
      'cancel_at', extract(epoch from subscription.cancel_at)::bigint,
      'trial_end', extract(epoch from subscription.trial_end)::bigint,
      'paused', subscription.paused,
      'livemode', subscription.livemode
    );
    select coalesce(
      jsonb_object_agg(e.key, case
        when jsonb_typeof(e.value) = 'object' then e.value
        else jsonb_build_object('replaced', jsonb_build_array(e.value))
      end), '{}'
    ) into second
    from jsonb_each(subscription.changed_in_second) as e
    where jsonb_typeof(e.value) = 'object' or e.value <> held -> e.key;
    if p_created is not null then
      select m.settled, m.second into settled, second
      from public.merge_update(second, held, stated, p_previous) as m;
      p_status := settled ->> 'status';
      p_plan_id := settled ->> 'plan_id';
      p_current_period_end := to_timestamp((settled ->> 'current_period_end')::bigint);
      p_provider_status := settled ->> 'provider_status';
      p_customer_id := settled ->> 'customer_id';
      p_quantity := (settled ->> 'quantity')::integer;
      p_cancel_at := to_timestamp((settled ->> 'cancel_at')::bigint);
      p_trial_end := to_timestamp((settled ->> 'trial_end')::bigint);
      p_paused := settled ->> 'paused';
      p_livemode := (settled ->> 'livemode')::boolean;
    end if;
  end if;

  update public.subscriptions s set
    -- A deletion of the same second or later keeps the status.
    status = case when p_created <= s.canceled_as_of then s.status else p_status end,
    plan_id = p_plan_id,
    current_period_end = p_current_period_end,
    provider_status = p_provider_status,
    customer_id = p_customer_id,
    quantity = p_quantity,
    cancel_at = p_cancel_at,
    trial_end = p_trial_end,
    paused = p_paused,
    livemode = p_livemode,
    past_due_since = past_due,
    changed_as_of = coalesce(p_created, s.changed_as_of),
    changed_by_update = true,
    changed_in_second = second
  where s.id = p_subscription_id;
  -- Stale: it changed nothing, and another update of the same second has
  -- replaced a value that it states.
  return case when settled = held and settled <> stated then 'stale' else 'applied' end;
end;
$function$;

comment on function public.apply_subscription_updated(text,timestamp with time zone,text,text,text,timestamp with time zone,jsonb,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) is 'Applies customer.subscription.updated; returns applied or stale. p_previous: the values that it replaced, as far as the event states them; null if it does not say. Called by apply_billing_events, which holds the claim and the lock.';

revoke all on function public.apply_subscription_updated(text,timestamp with time zone,text,text,text,timestamp with time zone,jsonb,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) from public;

grant EXECUTE on function public.apply_subscription_updated(text,timestamp with time zone,text,text,text,timestamp with time zone,jsonb,text,text,integer,timestamp with time zone,timestamp with time zone,text,boolean) to service_role;
