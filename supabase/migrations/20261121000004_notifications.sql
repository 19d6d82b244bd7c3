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
  next_attempt_at timestamptz not null default now(),
  lease_id uuid,
  limited_since timestamptz,
  created_at timestamptz not null default now(),
  sent_at timestamptz,
  unique (provider, event_id)
);

-- What is due, oldest first; settled rows leave it.
create index notifications_due on public.notifications (next_attempt_at)
where status = 'pending';

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
comment on column public.notifications.attempts is
  'Counted when a worker claims it, before it sends; taken back if the receiver answers 429.';
comment on column public.notifications.last_error is 'Why the newest attempt that failed did.';
comment on column public.notifications.next_attempt_at is
  'While pending: when it is due, or when the lease of the worker that has it ends.';
comment on column public.notifications.lease_id is
  'The newest claim, until it is settled; a worker settles only what it still holds.';
comment on column public.notifications.limited_since is
  'The first of the 429 answers in a row; null after any other answer.';
comment on column public.notifications.status is
  'pending until it is delivered (sent), given up (dead) or found to have nowhere to go (undeliverable).';
