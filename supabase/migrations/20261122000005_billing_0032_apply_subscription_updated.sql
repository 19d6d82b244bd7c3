/*
 * customer.subscription.updated: sets status, plan, period and what else the
 * provider reports, unless a newer event has set them.
 *
 * Updates of the same second are merged field by field, in any order of arrival
 * (merge_update); null is a value like any other. To add a field to this rule, add
 * a line in `stated`, in `held`, after merge_update and in the update of the
 * record.
 *
 * What an update replaced is needed only if another one arrives, of the same second
 * or without a time. So the row keeps p_previous as it is, and brings it into the
 * form of merge_update then. A previous value that the row still holds replaced
 * nothing: the update stated it as well.
 *
 * past_due_since has a rule of its own: the newest time of all updates that
 * changed the provider's status to past_due. A maximum does not depend on the
 * order of arrival. So an update that is older than the record sets it as well,
 * even if it changes nothing else and is stale. An update without
 * previous_attributes (p_previous is null), such as a correction by reconcile,
 * does not say whether it changed the status. It counts if it is the newest and
 * the record did not know of past_due; so its time may be later than the change.
 */
comment on column public.subscriptions.changed_in_second is
  'Ordering: what the update dated changed_as_of says that it replaced. After more updates of that second, for each field: the values that they replaced, and the other values that they stated and none of them replaced; at most 20 each.';

drop function if exists public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb);

create function public.apply_subscription_updated(
  p_provider text,
  p_created timestamptz,
  p_subscription_id text,
  p_status text,
  p_plan_id text,
  p_current_period_end timestamptz,
  p_previous jsonb,
  p_provider_status text default null,
  p_customer_id text default null,
  p_quantity integer default null,
  p_cancel_at timestamptz default null,
  p_trial_end timestamptz default null,
  p_paused text default null,
  p_livemode boolean default null
)
returns text
language plpgsql
volatile
set search_path = ''
as $$
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
$$;

revoke all on function public.apply_subscription_updated(
  text, timestamptz, text, text, text, timestamptz, jsonb,
  text, text, integer, timestamptz, timestamptz, text, boolean
) from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_updated(
  text, timestamptz, text, text, text, timestamptz, jsonb,
  text, text, integer, timestamptz, timestamptz, text, boolean
) to service_role;

comment on function public.apply_subscription_updated(
  text, timestamptz, text, text, text, timestamptz, jsonb,
  text, text, integer, timestamptz, timestamptz, text, boolean
) is
  'Applies customer.subscription.updated; returns applied or stale. p_previous: the values that it replaced, as far as the event states them; null if it does not say. Called by apply_billing_events, which holds the claim and the lock.';
