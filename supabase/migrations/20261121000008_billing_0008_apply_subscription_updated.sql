/*
 * customer.subscription.updated: sets status, plan and period as the provider
 * reports them, unless a newer event has set them.
 *
 * Updates of the same second are merged field by field, in any order of arrival
 * (merge_update). To add a field to this rule, add a line in `stated`, in
 * `held`, after merge_update and in the update of the record.
 */
create function public.apply_subscription_updated(
  p_provider text,
  p_created timestamptz,
  p_subscription_id text,
  p_status text,
  p_plan_id text,
  p_current_period_end timestamptz,
  p_previous jsonb
)
returns text
language plpgsql
volatile
set search_path = ''
as $$
declare
  subscription public.subscriptions;
  stated jsonb := jsonb_build_object(
    'status', p_status,
    'plan_id', p_plan_id,
    'current_period_end', extract(epoch from p_current_period_end)::bigint
  );
  held jsonb;
  settled jsonb;
  second jsonb;
begin
  subscription := public.find_subscription(p_provider, p_subscription_id);

  if p_created < subscription.changed_as_of then
    return 'stale';
  end if;
  if p_created = subscription.changed_as_of and subscription.changed_by_update then
    held := jsonb_build_object(
      'status', subscription.status,
      'plan_id', subscription.plan_id,
      'current_period_end', extract(epoch from subscription.current_period_end)::bigint
    );
    select m.settled, m.second into settled, second
    from public.merge_update(subscription.changed_in_second, held, stated, p_previous) as m;
    p_status := settled ->> 'status';
    p_plan_id := settled ->> 'plan_id';
    p_current_period_end := to_timestamp((settled ->> 'current_period_end')::bigint);
  elsif p_created is null then
    second := subscription.changed_in_second;
  else
    select coalesce(
      jsonb_object_agg(e.key, jsonb_build_object('replaced', jsonb_build_array(e.value))), '{}'
    ) into second
    from jsonb_each(p_previous) as e
    where e.value <> stated -> e.key;
  end if;

  update public.subscriptions s set
    -- A deletion of the same second or later keeps the status.
    status = case when p_created <= s.canceled_as_of then s.status else p_status end,
    plan_id = p_plan_id,
    current_period_end = p_current_period_end,
    changed_as_of = coalesce(p_created, s.changed_as_of),
    changed_by_update = true,
    changed_in_second = second
  where s.id = p_subscription_id;
  -- Stale: it changed nothing, and another update of the same second has
  -- replaced a value that it states.
  return case when settled = held and settled <> stated then 'stale' else 'applied' end;
end;
$$;

revoke all on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb)
  to service_role;

comment on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb) is
  'Applies customer.subscription.updated; returns applied or stale. p_previous: the values that it replaced, as far as the event states them. Called by apply_billing_events, which holds the claim and the lock.';
