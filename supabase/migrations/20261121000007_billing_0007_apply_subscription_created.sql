/*
 * customer.subscription.created: creates the record, with status active.
 *
 * A second creation of the same subscription is ordered like any other event:
 * for each field, the newer event wins. Of two creations in the same second, the
 * later arrival wins, because nothing tells which came first. A second creation
 * without an event time changes nothing.
 */
create function public.apply_subscription_created(
  p_provider text,
  p_created timestamptz,
  p_subscription_id text,
  p_account_id text,
  p_plan_id text,
  p_current_period_end timestamptz
)
returns text
language plpgsql
volatile
set search_path = ''
as $$
declare
  subscription public.subscriptions;
  owns_plan boolean;
  owns_status boolean;
begin
  -- Look for the record first: `on conflict` would wait for a transaction that
  -- is changing it.
  perform from public.subscriptions s where s.id = p_subscription_id;
  if not found then
    insert into public.subscriptions (
      id, provider, account_id, status, plan_id, current_period_end,
      account_as_of, changed_as_of
    )
    values (
      p_subscription_id, p_provider, p_account_id, 'active', p_plan_id, p_current_period_end,
      p_created, p_created
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

  -- If the account is newer, then plan, period and status are newer too.
  if p_created < subscription.account_as_of then
    return 'stale';
  end if;
  owns_plan := subscription.changed_as_of is null
    or p_created > subscription.changed_as_of
    or (p_created = subscription.changed_as_of and not subscription.changed_by_update);
  owns_status := owns_plan
    and (subscription.canceled_as_of is null or p_created > subscription.canceled_as_of);

  update public.subscriptions s set
    account_id = p_account_id,
    account_as_of = p_created,
    status = case when owns_status then 'active' else s.status end,
    plan_id = case when owns_plan then p_plan_id else s.plan_id end,
    current_period_end = case when owns_plan then p_current_period_end else s.current_period_end end,
    changed_as_of = case when owns_plan then p_created else s.changed_as_of end,
    changed_by_update = s.changed_by_update and not owns_plan,
    changed_in_second = case when owns_plan then '{}' else s.changed_in_second end
  where s.id = p_subscription_id;
  return 'applied';
end;
$$;

revoke all on function public.apply_subscription_created(text, timestamptz, text, text, text, timestamptz)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_created(text, timestamptz, text, text, text, timestamptz)
  to service_role;

comment on function public.apply_subscription_created(text, timestamptz, text, text, text, timestamptz) is
  'Applies customer.subscription.created; returns applied or stale. Called by apply_billing_events, which holds the claim and the lock.';
