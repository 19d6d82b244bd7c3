/*
 * customer.subscription.deleted: sets the status to canceled, unless an update
 * is newer.
 *
 * A deletion that is older than the newest update does not change the status, but
 * it sets canceled_at, as it would have done in order.
 */
create function public.apply_subscription_deleted(
  p_provider text,
  p_created timestamptz,
  p_subscription_id text
)
returns text
language plpgsql
volatile
set search_path = ''
as $$
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
$$;

revoke all on function public.apply_subscription_deleted(text, timestamptz, text)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_subscription_deleted(text, timestamptz, text)
  to service_role;

comment on function public.apply_subscription_deleted(text, timestamptz, text) is
  'Applies customer.subscription.deleted; returns applied or stale. Called by apply_billing_events, which holds the claim and the lock.';
