/*
 * The records that this service exists for: one row a subscription, in step
 * with the provider that created it.
 *
 * Events arrive late, twice and in any order, so a row carries, beside what an
 * app reads, the marks that tell which event each field came from. They are
 * the whole memory that the ordering rule needs (docs/decisions.md).
 */
create table public.subscriptions (
  id text primary key check (char_length(id) between 1 and 255),
  provider text not null check (char_length(provider) between 1 and 32),
  account_id text not null check (char_length(account_id) between 1 and 255),
  status text not null check (char_length(status) between 1 and 255),
  plan_id text not null check (char_length(plan_id) between 1 and 255),
  current_period_end timestamptz not null,
  canceled_at timestamptz,

  account_as_of timestamptz,
  changed_as_of timestamptz,
  changed_by_update boolean not null default false,
  changed_in_second jsonb not null default '{}',
  canceled_as_of timestamptz
)
-- Room on each page for the next version of a row: updates stay on the page
-- and leave the index alone (no indexed column changes after creation).
with (fillfactor = 80);

alter table public.subscriptions enable row level security;

revoke all on table public.subscriptions from public, anon, authenticated, service_role;
grant select, insert, update on table public.subscriptions to service_role;

comment on table public.subscriptions is
  'One row a subscription, kept in step with its provider by apply_billing_events.';
comment on column public.subscriptions.id is 'The provider''s subscription identifier.';
comment on column public.subscriptions.provider is
  'The provider that created it. Events of another provider for it are refused.';
comment on column public.subscriptions.account_id is
  'The owning account, from metadata.accountId of the newest creation.';
comment on column public.subscriptions.status is
  'active from a creation, canceled from a deletion, else as the provider reports it in an update.';
comment on column public.subscriptions.plan_id is 'Price identifier of the first item.';
comment on column public.subscriptions.canceled_at is
  'When this service handled the deletion; null while there was none.';
comment on column public.subscriptions.account_as_of is
  'Ordering: event time of the creation that account_id came from; null where it carried none.';
comment on column public.subscriptions.changed_as_of is
  'Ordering: event time of the newest creation or update; plan_id and current_period_end came from it.';
comment on column public.subscriptions.changed_by_update is
  'Ordering: true where that newest event was an update; within one second it outranks a creation.';
comment on column public.subscriptions.changed_in_second is
  'Ordering: of the updates dated changed_as_of, per field, the values that they replaced and the other values that they state and none of them replaced; at most 20 each.';
comment on column public.subscriptions.canceled_as_of is
  'Ordering: event time of the newest deletion; null where there was none or it carried none.';
