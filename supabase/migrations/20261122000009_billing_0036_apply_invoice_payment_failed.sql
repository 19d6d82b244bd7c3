-- For the search below, which must not scan the outbox.
create index notifications_invoice on public.notifications (provider, invoice_id)
where invoice_id is not null;

/*
 * invoice.payment_failed: creates a notification for the account, with what the
 * event states about the payment; the record stays unchanged. The worker delivers
 * the notification later.
 *
 * With p_once_per_invoice, the first event of an invoice to arrive creates the
 * only notification of that invoice. Two events of an invoice cannot both find
 * none: an invoice belongs to one subscription, whose lock the caller holds.
 *
 * Dropped first, because it has new arguments. They have defaults, so that a
 * caller that does not know them still works.
 */
drop function if exists public.apply_invoice_payment_failed(text, text, text, text);

create function public.apply_invoice_payment_failed(
  p_provider text,
  p_event_id text,
  p_subscription_id text,
  p_invoice_id text,
  p_hosted_invoice_url text default null,
  p_amount_due bigint default null,
  p_currency text default null,
  p_attempt_count integer default null,
  p_next_payment_attempt timestamptz default null,
  p_once_per_invoice boolean default false
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

  if p_once_per_invoice and exists (
    select from public.notifications n
    where n.provider = p_provider and n.invoice_id = p_invoice_id
  ) then
    return 'applied';
  end if;

  insert into public.notifications (
    provider, event_id, account_id, subscription_id, invoice_id,
    hosted_invoice_url, amount_due, currency, attempt_count, next_payment_attempt
  )
  values (
    p_provider, p_event_id, subscription.account_id, p_subscription_id, p_invoice_id,
    p_hosted_invoice_url, p_amount_due, p_currency, p_attempt_count, p_next_payment_attempt
  )
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
  return 'applied';
end;
$$;

revoke all on function public.apply_invoice_payment_failed(
  text, text, text, text, text, bigint, text, integer, timestamptz, boolean
) from public, anon, authenticated, service_role;
grant execute on function public.apply_invoice_payment_failed(
  text, text, text, text, text, bigint, text, integer, timestamptz, boolean
) to service_role;

comment on function public.apply_invoice_payment_failed(
  text, text, text, text, text, bigint, text, integer, timestamptz, boolean
) is
  'Applies invoice.payment_failed: inserts a row into notifications, unless p_once_per_invoice and the invoice has one; returns applied. Called by apply_billing_events, which holds the claim and the lock.';

comment on column public.notifications.next_payment_attempt is
  'When the provider tries again. Null if it does not; if attempt_count is null too, the event did not state it.';
