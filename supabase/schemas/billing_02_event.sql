-- An event on its way through the database, and its place in the order of events.
--
-- Why an event fails: code, name in the functions, cured by.
--   BW001  subscription_unknown            its creation
--   BW002  subscription_of_other_provider  a person
--   BW003  deployment_fault                a newer migration
--   BW004  repair_pending                  the retry of its failure
--   BW005  account_unknown                 its customer's account
--   BW006  creation_pending                its creation: its customer is known
--   BW007  handler_missing                 the handler
--   BW008  apply_failed                    the app
--   BW009  event_invalid                   a repair

create view billing.records
with (security_invoker = true)
as
select
  id,
  provider,
  account_id,
  status,
  plan_id,
  current_period_end,
  canceled_at,
  provider_status,
  customer_id,
  quantity,
  cancel_at,
  trial_end,
  had_trial,
  paused,
  paused_until,
  livemode,
  items,
  items_complete,
  past_due_since,
  past_due_as_of,
  not_past_due_as_of,
  recovered_as_of,
  unpaid_as_of,
  account_mark,
  changed_mark,
  changed_in_second,
  canceled_mark,
  alive_mark
from billing.subscriptions;

comment on view billing.records is
  'The subscriptions as the ordering rule reads and writes them, without columns of an app.';

-- An event as it is on the wire.
create type billing.event as (
  place integer, -- in the array of the call
  provider text,
  event_id text,
  type text, -- the provider's own name; nothing decides by it
  -- creation, update, opening_update (makes the record, too), deletion, payment_failed, notice,
  -- checkout or other
  kind text,
  occurred_at timestamptz, -- null if the event does not say
  subscription_id text,
  account_id text,
  -- As the provider keeps it with the customer: counts if account_of_customer knows no account.
  fallback_account text,

  -- By column of billing.records: what the event states, and what an update replaced (null if it
  -- does not say). A column that report does not name keeps its value. For kind other, report has a
  -- subscription_id.
  report jsonb,
  previous jsonb,
  -- News for the account, by column of billing.notifications; and once_per_invoice.
  payment jsonb,
  -- From a worker: event_id of the row in failed_events, and lease_id.
  retry jsonb,
  -- The account that is named by an event that cannot set account_id.
  named_account text,
  is_missed boolean, -- no delivery has brought it: a sweep has found it

  -- Added by the database.
  customers_account text,
  handled_at timestamptz,
  is_erased boolean,
  is_rehearsal boolean -- from billing_try_event, which undoes it
);

-- The outcome of an event, and the record after it. The rule leaves event null.
create type billing.step as (
  event billing.event,
  record billing.records,
  account_id text,
  payment jsonb,
  outcome text,
  error_code text,
  error text
);

create type billing.answer as (
  place integer,
  outcome text,
  error_code text,
  error text
);

-- The result of a batch of events. No array is empty: it is null.
create type billing.work as (
  answers billing.answer[],
  changed billing.records[],
  -- New, or of another customer or account: failures may wait for these.
  gained billing.records[],
  -- The events that do more than change a record.
  steps billing.step[],
  any_filed boolean, -- one comes from a retry, or has an open failure
  any_failed boolean, -- or is erased
  lacking integer[] -- places of events whose account is not known
);

-- Returns the place of an event in the order of events; null without a time.
create function billing.mark(event billing.event)
returns bigint
language sql stable
return (extract(epoch from event.occurred_at) * 1000000)::bigint * 4
  + case event.kind when 'creation' then 0 when 'deletion' then 2 else 1 end;

create function billing.time_of(mark bigint)
returns timestamptz
language sql immutable
return to_timestamp((mark >> 2) / 1000000.0);

create function billing.is_update(mark bigint)
returns boolean
language sql immutable
return mark & 3 = 1;

-- Returns whether an event makes the record if there is none. A deletion does if it reports the
-- whole subscription.
create function billing.opens(event billing.event)
returns boolean
language sql immutable
return event.kind in ('creation', 'opening_update')
  or event.kind = 'deletion' and (event.report ? 'plan_id') is true;
