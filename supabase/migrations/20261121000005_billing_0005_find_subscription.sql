/*
 * Returns the record that an event is about, locked, or raises an error. It does
 * not wait if another transaction has locked the row, because other events would
 * wait too. Keys never change, so the lock allows foreign keys to the row.
 *
 * Its errors are this service's own SQLSTATEs, class BW:
 *   BW001  no such subscription (yet): a later retry may find it
 *   BW002  the subscription belongs to the other provider
 */
create function public.find_subscription(p_provider text, p_subscription_id text)
returns public.subscriptions
language plpgsql
volatile
set search_path = ''
as $$
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
$$;

revoke all on function public.find_subscription(text, text)
  from public, anon, authenticated, service_role;
grant execute on function public.find_subscription(text, text) to service_role;

comment on function public.find_subscription(text, text) is
  'Returns a subscription of a provider, locked. Raises 55P03 if another transaction has locked it, BW001 if it does not exist, BW002 if it belongs to another provider.';
