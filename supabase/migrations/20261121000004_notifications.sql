/*
 * The outbox: what is owed to an account. A row is written in the transaction
 * that applies the event, so that a promise cannot be lost, and is delivered
 * outside of it. One row an event, whatever the channel.
 */
create table public.notifications (
  id uuid primary key default gen_random_uuid(),
  provider text not null,
  event_id text not null,
  account_id text not null,
  subscription_id text not null,
  invoice_id text,
  status text not null default 'pending' check (status in ('pending', 'sent', 'dead', 'undeliverable')),
  attempts integer not null default 0 check (attempts >= 0),
  last_error text,
  created_at timestamptz not null default now(),
  unique (provider, event_id)
);

alter table public.notifications enable row level security;

revoke all on table public.notifications from public, anon, authenticated, service_role;
grant select, insert, update on table public.notifications to service_role;

comment on table public.notifications is
  'The outbox of payment-failure notifications, one row an invoice.payment_failed event.';
comment on column public.notifications.id is 'Stable across attempts, so that the receiver can dedupe by it.';
comment on column public.notifications.event_id is 'The event that it is owed for.';
comment on column public.notifications.account_id is
  'The account that owned the subscription when the event was applied.';
comment on column public.notifications.invoice_id is 'The invoice that was not paid, where the event told.';
comment on column public.notifications.status is
  'pending until it is delivered (sent), given up (dead) or found to have nowhere to go (undeliverable).';
