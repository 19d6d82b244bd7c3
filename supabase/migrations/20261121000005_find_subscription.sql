/*
 * The record that an event is about, locked, or the reason why there is none.
 * It does not wait for whoever else has the row, because other events would
 * wait with it. Keys never change, so rows of the app may refer to it meanwhile.
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
      hint = 'Its customer.subscription.created has not been applied yet.';
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
  'The subscription of a provider, locked; raises 55P03 while somebody else has it, BW001 where there is none and BW002 where it is another provider''s.';
