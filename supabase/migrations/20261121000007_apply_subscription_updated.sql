/*
 * customer.subscription.updated: status, plan and period as the provider
 * reports them, unless a newer event has told already.
 *
 * Providers date events in whole seconds, so two updates may carry the same
 * time. Each tells the values that it replaced (previous_attributes): the one
 * whose new values are the other's previous ones came first. Where that tells
 * nothing, or both (a value that changed and changed back within the second),
 * the later arrival wins.
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
  previous jsonb := coalesce(p_previous, '{}');
  held jsonb;
  brought jsonb;
begin
  subscription := public.find_subscription(p_provider, p_subscription_id);

  if p_created < subscription.changed_as_of then
    return 'stale';
  end if;
  if p_created = subscription.changed_as_of and subscription.changed_by_update then
    held := jsonb_build_object(
      'status', subscription.reported_status,
      'plan_id', subscription.plan_id,
      'current_period_end', extract(epoch from subscription.current_period_end)::bigint
    );
    brought := jsonb_build_object(
      'status', p_status,
      'plan_id', p_plan_id,
      'current_period_end', extract(epoch from p_current_period_end)::bigint
    );
    if subscription.changed_from <> '{}' and brought @> subscription.changed_from
      and not (previous <> '{}' and held @> previous)
    then
      return 'stale';
    end if;
  end if;

  update public.subscriptions s set
    -- A deletion of the same second or later keeps the status.
    status = case when p_created <= s.canceled_as_of then s.status else p_status end,
    plan_id = p_plan_id,
    current_period_end = p_current_period_end,
    changed_as_of = coalesce(p_created, s.changed_as_of),
    changed_by_update = true,
    changed_from = previous,
    reported_status = p_status
  where s.id = p_subscription_id;
  return 'applied';
end;
$$;

revoke all on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb)
  to service_role;

comment on function public.apply_subscription_updated(text, timestamptz, text, text, text, timestamptz, jsonb) is
  'Applies customer.subscription.updated; answers applied or stale. p_previous: the values it replaced, as far as the event told. Called by apply_billing_events, which holds the claim and the lock.';
