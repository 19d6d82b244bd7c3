/*
 * The outbox: notifications to accounts. The transaction that applies the event
 * writes the row, so that no notification is lost; it is delivered outside of
 * that transaction. One row per event, whatever the channel.
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

-- Due notifications, oldest first.
create index notifications_due on public.notifications (next_attempt_at)
where status = 'pending';

alter table public.notifications enable row level security;

revoke all on table public.notifications from public, anon, authenticated, service_role;
grant select, insert, update on table public.notifications to service_role;

comment on table public.notifications is
  'The outbox of payment-failure notifications, one row per invoice.payment_failed event.';
comment on column public.notifications.id is 'The same for all attempts, so that the receiver can deduplicate by it.';
comment on column public.notifications.event_id is 'The event that created it.';
comment on column public.notifications.account_id is
  'The account that owned the subscription when the event was applied.';
comment on column public.notifications.invoice_id is 'The invoice that was not paid, if the event names it.';
comment on column public.notifications.attempts is
  'Counted when a worker claims it, before sending. Not counted if the receiver answers 429.';
comment on column public.notifications.last_error is 'The error of the last failed attempt.';
comment on column public.notifications.next_attempt_at is
  'While pending: when it is due, or when the lease of the worker that claimed it ends.';
comment on column public.notifications.lease_id is
  'The newest claim, until it is settled. A worker can settle only its own claim.';
comment on column public.notifications.limited_since is
  'When the current series of 429 answers began; null after any other answer.';
comment on column public.notifications.status is
  'pending until it is delivered (sent), given up (dead), or the account turns out to have no address (undeliverable).';
