-- An event on its way through the database, and its place in the order of events.

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
  provider text,
  event_id text,
  type text, -- the provider's own name; nothing decides by it
  kind text, -- creation, update, opening_update (makes the record, too), deletion, payment_failed, notice, checkout, other
  occurred_at timestamptz, -- null if the event does not say
  subscription_id text,
  account_id text,
  fallback_account text, -- what the provider keeps with the customer: counts if account_of_customer knows no account
  report jsonb, -- names columns of billing.records, as does previous; of kind other, a subscription_id
  previous jsonb, -- what an update replaced; null if it does not say
  payment jsonb, -- what the account may be told, by column of billing.notifications; and once_per_invoice
  retry jsonb, -- of a worker: event_id of the row in failed_events, and lease_id
  named_account text, -- of an event that cannot set account_id: the account that it names
  customers_account text,
  handled_at timestamptz,
  is_erased boolean,
  is_trial boolean -- added by the database
);

-- What became of an event, and the record after it. The rule leaves event to its caller.
create type billing.step as (
  event billing.event,
  record billing.records,
  account_id text,
  payment jsonb,
  outcome text,
  error_code text,
  error text
);

-- What a call answers for an event.
create type billing.answer as (
  place integer,
  outcome text,
  error_code text,
  error text
);

-- Returns the place of an event in the order of events: microseconds since 1970 times 4, plus 0 for a creation, 1 for
-- an update and 2 for a deletion. So at the same time, a creation comes first and a deletion last. Null without a time.
create or replace function billing.mark(e billing.event)
returns bigint language sql stable
return (extract(epoch from e.occurred_at) * 1000000)::bigint * 4
  + case e.kind when 'creation' then 0 when 'deletion' then 2 else 1 end;

create or replace function billing.time_of(mark bigint)
returns timestamptz language sql immutable
return to_timestamp((mark >> 2) / 1000000.0);

-- Returns whether an event makes the record if there is none. A deletion does if it reports the whole subscription.
create or replace function billing.opens(e billing.event)
returns boolean language sql immutable
return e.kind in ('creation', 'opening_update') or e.kind = 'deletion' and (e.report ? 'plan_id') is true;
