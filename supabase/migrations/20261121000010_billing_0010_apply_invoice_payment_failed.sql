/*
 * invoice.payment_failed: creates a notification for the account; the record
 * stays unchanged. The worker delivers the notification later.
 */
create function public.apply_invoice_payment_failed(
  p_provider text,
  p_event_id text,
  p_subscription_id text,
  p_invoice_id text
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

  insert into public.notifications (provider, event_id, account_id, subscription_id, invoice_id)
  values (p_provider, p_event_id, subscription.account_id, p_subscription_id, p_invoice_id)
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
  return 'applied';
end;
$$;

revoke all on function public.apply_invoice_payment_failed(text, text, text, text)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_invoice_payment_failed(text, text, text, text)
  to service_role;

comment on function public.apply_invoice_payment_failed(text, text, text, text) is
  'Applies invoice.payment_failed: inserts a row into notifications; returns applied. Called by apply_billing_events, which holds the claim and the lock.';
