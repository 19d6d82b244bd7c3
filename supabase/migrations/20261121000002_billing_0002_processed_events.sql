/*
 * The ledger: an event with a row here was applied, and is never applied again.
 * The transaction that applies the event writes the row, so neither the row nor
 * the effect exists without the other.
 *
 * Not partitioned: the primary key, which makes events unique, would have to
 * contain the partition key. Pruning old rows keeps the table small instead.
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
  'The ledger of applied events. An event with a row here is a duplicate if it arrives again.';
comment on column public.processed_events.outcome is
  'applied; or stale: the event was older than the record and changed nothing.';
