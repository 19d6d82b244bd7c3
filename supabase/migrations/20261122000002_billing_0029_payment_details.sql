/*
 * What an account needs to know to act on a failed payment, as the invoice in the
 * event states it. All of it is null if the event does not state it.
 */
alter table public.notifications
  add column hosted_invoice_url text,
  add column amount_due bigint,
  add column currency text,
  add column attempt_count integer,
  add column next_payment_attempt timestamptz;

comment on column public.notifications.hosted_invoice_url is
  'Where the account can pay the invoice; https only.';
comment on column public.notifications.amount_due is
  'In the smallest unit of the currency, such as cents.';
comment on column public.notifications.currency is 'Three lower-case letters, such as eur.';
comment on column public.notifications.attempt_count is
  'How often the provider has tried to collect the payment.';
comment on column public.notifications.next_payment_attempt is
  'When the provider tries again; null if it does not.';
