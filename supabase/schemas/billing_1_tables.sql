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
  current_period_end timestamptz, canceled_at timestamptz,
  provider_status text, customer_id text collate "C", quantity integer, cancel_at timestamptz, trial_end timestamptz,
  paused text, paused_until timestamptz, livemode boolean,
  items jsonb check (jsonb_typeof(items) = 'array'), items_complete boolean, past_due_since timestamptz,
  -- Which event a field came from: all that the ordering rule (billing_2_rule.sql) remembers.
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
with (fillfactor = 80);
create index subscriptions_account_id on billing.subscriptions (account_id);
create index subscriptions_customer_id on billing.subscriptions (provider, customer_id) where customer_id is not null;
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

create table billing.failed_events (
  provider text collate "C" not null check (char_length(provider) between 1 and 32),
  event_id text collate "C" not null check (char_length(event_id) between 1 and 255),
  type text, payload jsonb, payload_encoding text not null check (payload_encoding in ('json', 'text', 'base64')),
  original_payload jsonb, error_code text not null, error text not null,
  attempts integer not null default 1 check (attempts > 0),
  first_failed_at timestamptz not null default now(), last_failed_at timestamptz not null default now(),
  retry_requested_at timestamptz, next_retry_at timestamptz,
  scheduled_retries smallint not null default 0 check (scheduled_retries >= 0), retry_lease_id uuid,
  resolution text check (resolution in ('applied', 'duplicate', 'stale', 'ignored', 'by hand')),
  resolved_at timestamptz, resolution_note text, resolved_by text,
  -- Each as far as the receiver could read it: only it knows where a provider puts them.
  kind text, subscription_id text collate "C", customer_id text collate "C", account_id text collate "C",
  occurred_at timestamptz,
  primary key (event_id, provider), -- in this order, since people search by the id alone
  check ((resolved_at is null) = (resolution is null))
);
create index failed_events_open on billing.failed_events (error_code, first_failed_at) where resolved_at is null;
create index failed_events_to_retry on billing.failed_events (retry_requested_at) where retry_requested_at is not null;
create index failed_events_next_retry on billing.failed_events (next_retry_at) where next_retry_at is not null;
create index failed_events_waiting on billing.failed_events (subscription_id) -- a record cures them
-- "is not null", so that a plan of an empty table cannot take this one for the customers as well.
where resolution is null and subscription_id is not null
  and error_code in ('subscription_unknown', 'creation_pending', 'account_unknown');
create index failed_events_no_account on billing.failed_events (customer_id) -- an account of the customer cures them
where resolution is null and error_code = 'account_unknown';
-- For erasures, and for people.
create index failed_events_subscription_id on billing.failed_events (subscription_id);
create index failed_events_customer_id on billing.failed_events (customer_id);
create index failed_events_account_id on billing.failed_events (account_id);
create index failed_events_resolved on billing.failed_events (resolved_at) where resolved_at is not null;
comment on table billing.failed_events is 'Verified events that failed; open until resolved_at. See docs/operate.md.';
comment on column billing.failed_events.event_id is 'sha256:<hash of the body in hex> if it has no usable id.';
comment on column billing.failed_events.payload is 'As received, or as repaired: then original_payload is as received. Null after pruning.';
comment on column billing.failed_events.payload_encoding is 'json; text if jsonb cannot hold that; base64 for bytes.';
comment on column billing.failed_events.error is 'Of the newest failure, but one with repair_pending keeps it.';
comment on column billing.failed_events.retry_requested_at is 'Null again after the worker has tried.';
comment on column billing.failed_events.next_retry_at is 'When the worker retries it by itself; null if it does not.';
comment on column billing.failed_events.resolution is 'As the ledger says; ignored (UNMAPPED_SUBSCRIPTIONS); or by hand.';
comment on column billing.failed_events.kind is 'What the event does (billing.event); null if it cannot be read.';

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

create table billing.notifications (
  id uuid generated always as (md5(provider || '/' || event_id || '/' || kind)::uuid) stored primary key,
  provider text collate "C" not null, event_id text collate "C" not null,
  kind text not null default 'payment_failed'
    check (kind in ('payment_failed', 'action_required', 'trial_ending', 'recovered', 'ended')),
  status text not null default 'pending' check (status in ('pending', 'sent', 'dead', 'undeliverable', 'withdrawn')),
  account_id text collate "C" not null, subscription_id text collate "C" not null, invoice_id text collate "C",
  hosted_invoice_url text, amount_due bigint, currency text, attempt_count integer, next_payment_attempt timestamptz,
  trial_end timestamptz, still_has_access boolean,
  occurred_at timestamptz not null default now(), created_at timestamptz not null default now(),
  attempts integer not null default 0 check (attempts >= 0), next_attempt_at timestamptz not null default now(),
  last_error text, sent_at timestamptz,
  unique (provider, event_id)
);
create index notifications_due on billing.notifications (next_attempt_at) where status = 'pending';
create index notifications_invoice on billing.notifications (invoice_id) where invoice_id is not null;
create index notifications_given_up on billing.notifications (created_at) where status in ('dead', 'undeliverable');
create index notifications_settled on billing.notifications (created_at) where status <> 'pending';
comment on table billing.notifications is 'The outbox: one per event that NOTIFY asks for, stored with its effect.';
comment on column billing.notifications.id is 'The same for every attempt, also after a restored backup.';
comment on column billing.notifications.status is 'dead: given up. withdrawn: not true now. undeliverable: no address.';
comment on column billing.notifications.amount_due is 'In the smallest unit of the currency, such as cents.';
comment on column billing.notifications.attempt_count is 'How often the provider has tried to collect the payment.';
comment on column billing.notifications.next_payment_attempt is 'Null if there is none, or attempt_count is null, too.';
comment on column billing.notifications.still_has_access is
  'Of kind ended: whether the account had access by another subscription at the first attempt; null before.';
comment on column billing.notifications.attempts is 'Counted before sending, but not if the receiver answers 429.';

create table billing.alerts (
  error_code text primary key,
  opened_at timestamptz, -- when the operator was first told since none was open; null once told that all are resolved
  alerted_at timestamptz not null, -- when the operator was last told of new ones: at most once an hour
  reported integer not null check (reported >= 0) -- how many of the open failures the operator was told about
);
comment on table billing.alerts is 'What the operator was told about failures, per error code, and about handlers.';

create table billing.erasures (
  -- sha256(key || provider || ':' || id), with the key in billing.erasure_key; of an account, account || ':' || id.
  hash bytea primary key,
  erased_at timestamptz not null default now(),
  purchases integer not null default 0 check (purchases >= 0)
);
create index erasures_purchases on billing.erasures (purchases) where purchases > 0;
comment on table billing.erasures is 'IDs of accounts that were erased; see billing.forget_erasure().';
comment on column billing.erasures.purchases is 'Events since that would have made a record: somebody may be paying.';
create table billing.erasure_key (key bytea not null);
comment on table billing.erasure_key is 'One row: the random key of billing.erasures. Without it, nobody can try IDs.';
insert into billing.erasure_key (key) values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

create table billing.leases (
  queue text primary key check (queue in ('retries', 'notifications')),
  lease_id uuid not null, -- the run; what it claimed, only it can settle
  held_until timestamptz not null, -- a run that died holds nobody up for longer
  is_wanted boolean not null default false, -- another run has asked for the queue: there may be more to do
  scheduled_run_at timestamptz -- when a run that the schedule has woken last ended without a fault
);
comment on table billing.leases is 'Which run of the worker has a queue: retries, or notifications (and alerts).';

create table billing.pauses (
  destination text primary key, -- resend, the host of NOTIFICATION_URL, or "alerts to" and the host of ALERT_URL
  paused_until timestamptz not null
);
comment on table billing.pauses is 'Receivers that answered 429. Deleting a row ends the pause.';

-- The columns that the rule reads and writes. What an app adds to the table is not among them, and stays as it is.
create or replace view billing.records with (security_invoker = true) as
select
  id, provider, account_id, status, plan_id, current_period_end, canceled_at, provider_status, customer_id,
  quantity, cancel_at, trial_end, paused, paused_until, livemode, items, items_complete, past_due_since,
  past_due_as_of, not_past_due_as_of, recovered_as_of, unpaid_as_of, account_as_of, changed_as_of, changed_in_second,
  canceled_as_of, alive_as_of
from billing.subscriptions;
comment on view billing.records is 'The subscriptions as the ordering rule reads and writes them.';

-- An event as it is on the wire. A column that its report does not name keeps its value.
create type billing.event as (
  place integer, -- in the array of the call
  provider text, event_id text,
  type text, -- the provider's own name; nothing decides by it
  kind text, -- creation, update, opening_update (makes the record, too), deletion, payment_failed, notice, checkout, other
  occurred_at timestamptz, -- null if the event does not say
  subscription_id text, account_id text,
  fallback_account text, -- what the provider keeps with the customer: counts if account_of_customer knows no account
  report jsonb, -- names columns of billing.records, as does previous; of kind other, a subscription_id
  previous jsonb, -- what an update replaced; null if it does not say
  payment jsonb, -- what the account may be told, by column of billing.notifications; and once_per_invoice
  retry jsonb, -- of a worker: event_id of the row in failed_events, and lease_id
  named_account text, -- of an event that cannot set account_id: the account that it names
  customers_account text, handled_at timestamptz, is_erased boolean, is_trial boolean -- added by the database
);

-- What became of an event, and the record after it. The rule leaves event to its caller.
create type billing.step as (
  event billing.event, record billing.records, account_id text, payment jsonb, outcome text, error_code text, error text
);

-- What a call answers for an event.
create type billing.answer as (place integer, outcome text, error_code text, error text);
