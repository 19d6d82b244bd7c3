/*
 * The ledger: an event that has a row here was applied, and is never applied
 * again. The row is written in the transaction that applies the event, so it
 * cannot be there without the effect, nor the effect without it.
 *
 * Not partitioned: the key that dedupes would have to contain the partition
 * key. It is kept small by pruning old rows instead.
 */
create table public.processed_events (
  provider text not null check (char_length(provider) between 1 and 32),
  event_id text not null check (char_length(event_id) between 1 and 255),
  type text not null,
  outcome text not null default 'applied' check (outcome in ('applied', 'stale')),
  processed_at timestamptz not null default now(),
  primary key (provider, event_id)
);

alter table public.processed_events enable row level security;

revoke all on table public.processed_events from public, anon, authenticated, service_role;
grant select, insert, update, delete on table public.processed_events to service_role;

comment on table public.processed_events is
  'The ledger of applied events; what has a row here is a duplicate when it comes again.';
comment on column public.processed_events.outcome is
  'applied, or stale: the event was older than what the record already held and changed nothing.';
