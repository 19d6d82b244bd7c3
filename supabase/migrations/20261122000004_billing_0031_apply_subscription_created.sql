/*
 * customer.subscription.created: creates the record, with status active.
 *
 * A second creation of the same subscription is ordered like any other event:
 * for each field, the newer event wins. Of two creations in the same second, the
 * later arrival wins, because nothing tells which came first. A second creation
 * without an event time changes nothing.
 *
 * A creation without an account leaves the account of the record alone. If there
 * is no record, account_of_customer is asked, and every later arrival of a
 * creation with an account wins over its answer. It sees what was committed, and
 * the events of the same array that were applied before. So of two creations of a
 * new customer that arrive at once, the one without an account may fail; a retry
 * finds the account. Its error is this service's own SQLSTATE:
 *   BW005  no account id in the event, and no account of its customer
 */
drop function if exists public.apply_subscription_created(text, timestamptz, text, text, text, timestamptz);

create function public.apply_subscription_created(
  p_provider text,
  p_created timestamptz,
  p_subscription_id text,
  p_account_id text,
  p_plan_id text,
  p_current_period_end timestamptz,
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
$$;

revoke all on function public.apply_subscription_created(
  text, timestamptz, text, text, text, timestamptz,
  text, text, integer, timestamptz, timestamptz, text, boolean
) from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_created(
  text, timestamptz, text, text, text, timestamptz,
  text, text, integer, timestamptz, timestamptz, text, boolean
) to service_role;

comment on function public.apply_subscription_created(
  text, timestamptz, text, text, text, timestamptz,
  text, text, integer, timestamptz, timestamptz, text, boolean
) is
  'Applies customer.subscription.created; returns applied or stale. Raises BW005 if neither the event nor account_of_customer says whose it is. Called by apply_billing_events, which holds the claim and the lock.';
