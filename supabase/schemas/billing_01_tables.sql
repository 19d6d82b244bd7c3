-- The tables, and the types that functions pass on. IDs have the collation "C": no new C library can split a key, and
-- Stripe's IDs, which begin with their time, go to the end of an index.
create schema if not exists billing;
comment on schema billing is 'The billing webhook receiver. Not for the Data API.';

create table billing.subscriptions (
  id text collate "C" primary key check (char_length(id) between 1 and 255),
  provider text collate "C" not null check (char_length(provider) between 1 and 32),
  account_id text collate "C" not null check (char_length(account_id) between 1 and 255),
  status text not null check (char_length(status) between 1 and 255),
  plan_id text collate "C" not null check (char_length(plan_id) between 1 and 255),
  current_period_end timestamptz,
  canceled_at timestamptz,
  provider_status text,
  customer_id text collate "C",
  quantity integer,
  cancel_at timestamptz,
  trial_end timestamptz,
  paused text,
  paused_until timestamptz,
  livemode boolean,
  items jsonb check (jsonb_typeof(items) = 'array'),
  items_complete boolean,
  past_due_since timestamptz,
  -- Which event a field came from: all that the ordering rule (billing_03_rule.sql) remembers.
  past_due_as_of timestamptz, -- the earliest time at which it is known to have been past_due after not_past_due_as_of
  not_past_due_as_of timestamptz, -- the newest time at which it is known to have been something else
  recovered_as_of timestamptz,
  -- Of a creation or opening_update: the newest that reported past_due, unpaid or incomplete; -infinity: only a creation
  unpaid_as_of timestamptz,
  account_as_of bigint, -- mark of the creation that named the account; null if it had no time, or if nobody named it
  changed_as_of bigint, -- mark of the newest creation or update: the provider's reports came from it
  changed_in_second jsonb, -- what that update replaced; after more with this mark, what each stated and replaced
  canceled_as_of bigint, -- mark of the newest deletion
  alive_as_of bigint -- mark of the newest creation or update that reported no end
)
-- Room on each page for the next version of a row: updates stay there and touch no index (no indexed column changes).
with
  (fillfactor = 80);
create index subscriptions_account_id on billing.subscriptions (account_id);
create index subscriptions_customer_id on billing.subscriptions (provider, customer_id)
where
  customer_id is not null;
comment on table billing.subscriptions is 'One row per subscription; ..._as_of and changed_in_second order events.';
comment on column billing.subscriptions.provider is 'a or b, as in the settings. The other one''s events for it are refused.';
comment on column billing.subscriptions.account_id is 'Of the newest event that names one, else of its customer.';
comment on column billing.subscriptions.status is 'active from a creation, canceled from a deletion, else as reported.';
comment on column billing.subscriptions.plan_id is 'Price of the first item, or of the first licensed one (PLAN_ITEM).';
comment on column billing.subscriptions.canceled_at is 'When this service handled its end; null without one.';
comment on column billing.subscriptions.cancel_at is 'When it is going to end, also by cancel_at_period_end.';
comment on column billing.subscriptions.paused is 'pause_collection.behavior; null if payments are collected.';
comment on column billing.subscriptions.items_complete is 'False if the provider''s event did not have all items.';
comment on column billing.subscriptions.past_due_since is 'Since when provider_status is past_due, as events show.';
comment on column billing.subscriptions.recovered_as_of is 'When an update last ended past_due, unpaid or incomplete.';

-- Not partitioned: the primary key, which makes events unique, would have to contain the partition key.
create table billing.processed_events (
  provider text collate "C" not null check (char_length(provider) between 1 and 32),
  event_id text collate "C" not null check (char_length(event_id) between 1 and 255),
  type text not null,
  outcome text not null default 'applied' check (outcome in ('applied', 'stale')),
  processed_at timestamptz not null default now(),
  primary key (provider, event_id)
);
create index processed_events_processed_at on billing.processed_events (processed_at);
comment on table billing.processed_events is 'The ledger of applied events: one that has a row here is a duplicate.';
comment on column billing.processed_events.outcome is 'stale: the event was older than the record.';

-- For payment links, pricing tables, buy buttons. With ACCOUNT_FROM_CHECKOUT, the receiver adds rows, and changes none.
create table billing.customers (
  provider text collate "C" not null check (char_length(provider) between 1 and 32),
  customer_id text collate "C" not null check (char_length(customer_id) between 1 and 255),
  account_id text collate "C" not null check (char_length(account_id) between 1 and 255),
  created_at timestamptz not null default now(),
  primary key (provider, customer_id)
);
create index customers_account_id on billing.customers (account_id);
comment on table billing.customers is 'Whose a customer is; yours to correct. A new row retries what lacked it.';

create table billing.plan_features (
  plan_id text collate "C" not null,
  feature text collate "C" not null,
  amount bigint check (amount >= 0),
  per_unit boolean not null default true,
  primary key (plan_id, feature)
);
comment on table billing.plan_features is 'What a plan includes, filled by you, for billing_feature_amount.';
comment on column billing.plan_features.plan_id is 'A price, or a product: the row of the price wins.';
comment on column billing.plan_features.amount is 'How much of it; null means unlimited.';
comment on column billing.plan_features.per_unit is 'Whether the amount is per unit of the item''s quantity, or once.';
