-- The tables that events end in; others are in the file of their concern. IDs have the collation
-- "C": no new C library can split a key, and Stripe's IDs, which begin with their time, go to the
-- end of an index.
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

  -- As the provider reports it, if it does.
  provider_status text,
  customer_id text collate "C",
  quantity integer,
  cancel_at timestamptz,
  trial_end timestamptz,
  -- Whether an event has ever reported one.
  had_trial boolean not null default false,
  paused text,
  paused_until timestamptz,
  livemode boolean,
  items jsonb check (jsonb_typeof(items) = 'array'),
  items_complete boolean,
  past_due_since timestamptz,
  created_at timestamptz not null default now(),

  -- All that the ordering rule (03) remembers of earlier events.
  -- When it is first known to have been past_due after not_past_due_as_of.
  past_due_as_of timestamptz,
  -- When it was last known to be something other than past_due.
  not_past_due_as_of timestamptz,
  -- When an update last ended past_due, unpaid or incomplete.
  recovered_as_of timestamptz,
  -- When a creation or opening_update last reported past_due, unpaid or incomplete; -infinity if
  -- none has, but a creation has come.
  unpaid_as_of timestamptz,

  -- ..._mark are places in the order of events (billing.mark).
  -- The newest creation or opening_update that named the account.
  account_mark bigint,
  -- The newest creation or update: what the provider reports comes from it.
  changed_mark bigint,
  -- What updates with this mark replaced (billing.settle):
  --   {...}  one that says so
  --   [{"stated": {...}, "replaced": {...}}, ...]  several
  --   null   a creation, or one update that does not say
  changed_in_second jsonb,
  -- The newest deletion.
  canceled_mark bigint,
  -- The newest creation, or update to a status that is not an end.
  alive_mark bigint
)
-- Room for the next version of a row: updates stay on its page and touch no index, since no indexed
-- column changes.
with
  (fillfactor = 80);

create index subscriptions_account_id on billing.subscriptions (account_id);
create index subscriptions_customer_id on billing.subscriptions (provider, customer_id)
where
  customer_id is not null;

comment on table billing.subscriptions is
  'One row per subscription; ..._mark, ..._as_of and changed_in_second order events.';
comment on column billing.subscriptions.provider is
  'a or b, as in the settings. Events of the other provider for it are refused.';
comment on column billing.subscriptions.account_id is
  'From the newest event that names one, else from its customer.';
comment on column billing.subscriptions.status is
  'active from a creation, canceled from a deletion, else as reported.';
comment on column billing.subscriptions.plan_id is
  'Price of the first item, or of the first licensed one (PLAN_ITEM).';
comment on column billing.subscriptions.canceled_at is
  'When this service handled its newest deletion, or first an opening_update that reports '
  'canceled. Kept if it comes back.';
comment on column billing.subscriptions.cancel_at is
  'When it is going to end, also by cancel_at_period_end.';
comment on column billing.subscriptions.paused is
  'pause_collection.behavior; null if payments are collected.';

-- Not partitioned: the primary key, which makes events unique, would need the partition key.
create table billing.processed_events (
  provider text collate "C" not null,
  event_id text collate "C" not null check (char_length(event_id) between 1 and 255),
  type text not null,
  -- stale: the fields that it would set have newer values, or it is a second creation.
  outcome text not null default 'applied' check (outcome in ('applied', 'stale')),
  processed_at timestamptz not null default now(),
  primary key (provider, event_id)
);

create index processed_events_processed_at on billing.processed_events (processed_at);

comment on table billing.processed_events is
  'The ledger of applied events: an event that has a row here is a duplicate.';

-- For payment links, pricing tables and buy buttons. With ACCOUNT_FROM_CHECKOUT, the webhook adds
-- rows, and changes none.
create table billing.customers (
  provider text collate "C" not null check (char_length(provider) between 1 and 32),
  customer_id text collate "C" not null check (char_length(customer_id) between 1 and 255),
  account_id text collate "C" not null check (char_length(account_id) between 1 and 255),
  created_at timestamptz not null default now(),
  primary key (provider, customer_id)
);

create index customers_account_id on billing.customers (account_id);

comment on table billing.customers is
  'Which account a customer belongs to; you may correct it. A new row retries what lacked it.';

create table billing.plan_features (
  plan_id text collate "C" not null,
  feature text collate "C" not null,
  amount bigint check (amount >= 0),
  per_unit boolean not null default true,
  primary key (plan_id, feature)
);

comment on table billing.plan_features is
  'What a plan includes, filled by you, for billing_feature_amount. '
  'plan_id: a price, or a product; the row of the price wins. '
  'amount: null means unlimited. '
  'per_unit: for each unit of the item''s quantity, or once.';
