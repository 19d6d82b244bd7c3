-- Written in the receiver's repository by "deno task migration", from supabase/schemas: edit those files there.

do $$
declare
  taken text;
begin
  if current_setting('server_version_num')::integer < 150000 then
    raise exception 'Nothing was created, because this is Postgres %, and the receiver needs 15 or later. Upgrade Postgres (dashboard, Project Settings, Infrastructure), and push again.',
      current_setting('server_version');
  end if;

  select string_agg(t.what, ', ' order by t.what) into taken
  from (
    select pg_describe_object(d.classid, d.objid, 0) as what
    from pg_depend d, pg_identify_object(d.classid, d.objid, 0) i
    where d.refclassid = 'pg_namespace'::regclass
      and (d.refobjid = to_regnamespace('billing') or split_part(i.identity, '(', 1) = any ('{
        public.billing_account, public.billing_account_email, public.billing_account_of_customer,
        public.billing_apply_events, public.billing_apply_handled_event, public.billing_claim_alerts,
        public.billing_claim_failed_events, public.billing_claim_notifications, public.billing_claim_sweep,
        public.billing_customers, public.billing_default_grace, public.billing_end_grant,
        public.billing_events_per_hour, public.billing_failed_events, public.billing_feature_amount,
        public.billing_grant_plan, public.billing_grants, public.billing_has_access,
        public.billing_has_feature, public.billing_health, public.billing_is_erased,
        public.billing_missing_events, public.billing_notifications, public.billing_plan_features,
        public.billing_processed_events, public.billing_record_failed_event, public.billing_records,
        public.billing_release_lease, public.billing_reopen_failed_event, public.billing_request_sweep,
        public.billing_resolve_failed_event, public.billing_retry_failed_event, public.billing_retry_failed_events,
        public.billing_settle_alerts, public.billing_settle_failed_events, public.billing_settle_notifications,
        public.billing_settle_sweep, public.billing_subscription_items, public.billing_subscriptions,
        public.billing_sweeps, public.billing_try_event
      }'))
    union
    select 'schema billing of ' || n.nspowner::regrole
    from pg_namespace n where n.nspname = 'billing' and n.nspowner <> current_user::regrole
  ) as t;
  if taken is not null then
    raise exception 'Nothing was created, because these names are taken: %. Rename or drop them, and push again.', taken;
  end if;
end;
$$;

-- supabase/schemas/billing_01_tables.sql
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
-- supabase/schemas/billing_02_event.sql
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
-- supabase/schemas/billing_03_rule.sql
-- The rule: what an event does to the record of its subscription. Nothing here reads or writes a
-- table, so a list of cases tests it (supabase/tests/rule.test.sql).

-- Each field belongs to the newest event that sets it: the account to a creation that names it,
-- what the provider reports to a creation or update, the status to a creation, update or deletion,
-- canceled_at to a deletion. An opening_update makes the record if there is none, and names the
-- account as a creation does. A deletion that makes the record lends it its account and report,
-- until a creation or update brings its own, however old. An event that is older than all that it
-- would set is stale. One without a time is never older; as a second creation, it is stale.
--
-- before is the step before it, stored the record in the table; null if there is none.
create function billing.next(
  before billing.step,
  stored billing.records,
  event billing.event
)
returns billing.step
language plpgsql stable
as $$
declare
  record billing.records := coalesce(before.record, stored);
  payment jsonb := event.payment;
  outcome text := 'applied';
  fault text[];
  settled billing.records;

  mark constant bigint := billing.mark(event);
  -- Without a time, it has that of the call, and its place there.
  occurred_at constant timestamptz := coalesce(
    event.occurred_at,
    event.handled_at + event.place * interval '1 microsecond'
  );
  opens constant boolean := billing.opens(event);
  is_older constant boolean := coalesce(mark < record.changed_mark, false);
  is_before_end constant boolean := coalesce(mark < record.canceled_mark, false);

  reported constant text := case
    when event.kind <> 'deletion' then event.report ->> 'provider_status'
  end;
  status_before text;
  is_lent boolean;
  has_come_back boolean;
  is_known_end boolean;
  counts boolean;
  was_other boolean;
  other_as_of timestamptz;
  unpaid_now timestamptz;
begin
  if event.is_erased then
    return (null, record, null, null, 'erased', null, null)::billing.step;
  elsif event.kind in ('checkout', 'other') then
    return (null, null, event.account_id, null, 'applied', null, null)::billing.step;
  end if;

  fault := case
    when (opens or event.kind in ('update', 'deletion', 'payment_failed', 'notice')) is not true
      then array['BW003', format('No function applies events of type %s.', event.type)]
    when record.id is null and not opens
      then array['BW001', format('No subscription %s is recorded.', event.subscription_id)]
    when record.provider <> event.provider
      then array['BW002', format(
        'Subscription %s belongs to provider %s, not %s.',
        record.id,
        record.provider,
        event.provider
      )]
    when coalesce(record.account_id, event.account_id, event.customers_account) is null
      then array['BW005', 'No account is known.']
  end;
  if fault is not null then
    return (null, record, null, null, 'failed', fault[1], fault[2])::billing.step;
  end if;

  if event.kind = 'creation' then
    if record.id is not null and mark is null
      or mark < record.account_mark
      or event.account_id is null and is_older
    then
      outcome := 'stale';
    elsif not is_older then
      record := jsonb_populate_record(record, event.report);
      record.changed_mark := mark;
      record.changed_in_second := null;
      record.status := case when is_before_end then record.status else 'active' end;
    end if;

  elsif event.kind in ('update', 'opening_update') then
    status_before := case
      when event.previous is not null then event.previous ->> 'provider_status'
      when not is_older then record.provider_status
    end;

    if is_older then
      outcome := 'stale';
    elsif mark = record.changed_mark then
      -- Stale if others of its second replaced all that it states.
      settled := billing.settle(record, event);
      record.changed_in_second := settled.changed_in_second;
      if settled = record and settled <> jsonb_populate_record(settled, event.report) then
        outcome := 'stale';
      end if;
      record := settled;
    else
      record := jsonb_populate_record(record, event.report);
      if mark is not null then
        record.changed_mark := mark;
        record.changed_in_second := event.previous;
      end if;
    end if;

    if outcome = 'applied' and not is_before_end then
      record.status := coalesce(record.provider_status, record.status);
    end if;
    if opens and reported = 'canceled' then
      record.canceled_at := coalesce(record.canceled_at, event.handled_at);
    end if;

    -- It recovered, even if the update is stale. The account is told of payments only.
    if event.kind = 'update'
      and status_before in ('past_due', 'unpaid', 'incomplete')
      and reported in ('active', 'trialing')
    then
      record.recovered_as_of := greatest(record.recovered_as_of, occurred_at);
    end if;
    if (status_before in ('past_due', 'unpaid') and reported = 'active') is not true then
      payment := null;
    end if;

  elsif event.kind = 'deletion' then
    -- Only deletions have come.
    is_lent := record.canceled_mark is not null and record.changed_mark is null;
    -- Since the end that is recorded.
    has_come_back := record.alive_mark > record.canceled_mark
      or record.status not in ('canceled', 'incomplete_expired');
    -- Another deletion has told of this end, or it has come back since this end, too.
    is_known_end := case
      when mark is null then record.status = 'canceled' and record.canceled_at is not null
      else record.canceled_mark is not null
        and (has_come_back is not true or record.alive_mark >= mark)
    end;
    if is_known_end then
      payment := null;
    end if;

    if is_before_end then
      outcome := 'stale';
    else
      record.canceled_at := event.handled_at;
      record.canceled_mark := coalesce(mark, record.canceled_mark);
      record.status := case when is_older then record.status else 'canceled' end;
    end if;

    if opens and outcome = 'applied' and (record.id is null or is_lent) then
      record := jsonb_populate_record(record, event.report);
      record.account_id := coalesce(event.account_id, record.account_id);
      payment := null; -- it was never known to be anything but ended
    end if;
  end if;

  -- A stale opening_update may still be the newest that names the account.
  if event.kind = 'opening_update' or opens and outcome = 'applied' then
    record.id := event.subscription_id;
    record.provider := event.provider;

    if event.kind <> 'deletion'
      and event.account_id is not null
      and (mark < record.account_mark) is not true
    then
      if record.account_id <> event.account_id then
        outcome := 'applied';
      end if;
      record.account_id := event.account_id;
      record.account_mark := coalesce(mark, record.account_mark);
    end if;
    record.account_id := coalesce(record.account_id, event.account_id, event.customers_account);
  end if;

  -- Stale events count too: one between two deletions tells that these are two ends.
  if mark is not null
    and (event.kind = 'creation' or reported not in ('canceled', 'incomplete_expired'))
  then
    record.alive_mark := greatest(record.alive_mark, mark);
  end if;
  record.had_trial := coalesce(record.had_trial, false)
    or (event.report ->> 'trial_end') is not null;

  -- So here: a minimum after a maximum does not depend on the order of arrival, if updates say what
  -- they replaced.
  counts := outcome = 'applied' or mark is not null;

  -- Since when is it past_due?
  if counts and reported is not null then
    was_other := (
      event.kind = 'creation' or event.previous ->> 'provider_status' <> 'past_due'
    ) is true;
    other_as_of := record.not_past_due_as_of;
    if reported <> 'past_due' or was_other then
      other_as_of := greatest(other_as_of, occurred_at);
    end if;

    if reported = 'past_due'
      or record.provider_status = 'past_due'
      or record.past_due_as_of is not null
    then
      record.past_due_as_of := billing.earliest(
        known => record.past_due_as_of,
        occurred_at => case when reported = 'past_due' then occurred_at end,
        is_change => was_other,
        newest => case
          when record.provider_status = 'past_due' then billing.time_of(record.changed_mark)
        end,
        other_before => record.not_past_due_as_of,
        other_now => other_as_of
      );
    end if;
    record.not_past_due_as_of := other_as_of;
  end if;

  record.past_due_since := case
    when record.provider_status = 'past_due'
      then coalesce(record.past_due_as_of, billing.time_of(record.changed_mark))
  end;

  -- When was it paid again?
  if counts and event.kind in ('creation', 'opening_update') then
    unpaid_now := greatest(record.unpaid_as_of, case
      when reported in ('past_due', 'unpaid', 'incomplete') then occurred_at
      when event.kind = 'creation' then '-infinity'
    end);
    record.recovered_as_of := billing.recovered(
      record,
      unpaid_now,
      paid_at => case
        when event.kind = 'opening_update' and reported in ('active', 'trialing') then occurred_at
      end
    );
    record.unpaid_as_of := unpaid_now;
  end if;

  return (null, record, record.account_id, payment, outcome, null, null)::billing.step;
end;
$$;

create aggregate billing.fold (billing.records, billing.event) (
  sfunc = billing.next,
  stype = billing.step
);

-- Returns when a state began: at the first known time after the newest time of another state. If
-- past_due was reported at 10:00 and 12:00, it began at 10:00; once an event of 11:00 that reports
-- active arrives, at 12:00. At the very time of another state, only a change to the state counts.
--
-- known is the result without this event, occurred_at its time and newest that of the newest
-- update, if they report the state. other_before and other_now are the newest time of another
-- state, without and with this event.
create function billing.earliest(
  known timestamptz,
  occurred_at timestamptz,
  is_change boolean,
  newest timestamptz,
  other_before timestamptz,
  other_now timestamptz
)
returns timestamptz
language sql immutable
return least(
  case when known > other_now or other_now is not distinct from other_before then known end,
  case
    when (occurred_at < other_now or occurred_at = other_now and not is_change) is not true
      then occurred_at
  end,
  case when newest > other_now then newest end
);

-- Returns when a subscription was paid again, if updates never say what they replaced (all formats
-- but Stripe). The account is not told of a payment that failed before that (08).
--
-- unpaid_now says when it was last unpaid. Null: at first, as a payment that failed was in a
-- checkout that went on. -infinity: never, as a creation has come.
create function billing.recovered(
  record billing.records,
  unpaid_now timestamptz,
  paid_at timestamptz
)
returns timestamptz
language sql immutable
return coalesce(
  case
    when unpaid_now is distinct from '-infinity' then billing.earliest(
      known => case
        when (record.recovered_as_of < record.unpaid_as_of) is not true then record.recovered_as_of
      end,
      occurred_at => paid_at,
      is_change => true,
      newest => case
        when record.provider_status in ('active', 'trialing')
          and billing.is_update(record.changed_mark)
          and record.changed_in_second is null
          then billing.time_of(record.changed_mark)
      end,
      other_before => record.unpaid_as_of,
      other_now => unpaid_now
    )
  end,
  case when record.unpaid_as_of is not null then record.recovered_as_of end
);

-- Returns the record after another update with the mark of its newest one: each field has the value
-- that some update states and none replaced ("Updates of the same second" in docs/decisions.md). A
-- previous value that equals the update's own replaced nothing: Stripe sends all old items if any
-- part of them changed.
create function billing.settle(record billing.records, event billing.event)
returns billing.records
language plpgsql stable
set search_path = ''
set timezone = 'UTC' -- times are compared as text
as $$
declare
  stated constant jsonb := billing.as_stored(event.report);
  updates jsonb := case jsonb_typeof(record.changed_in_second)
    when 'array' then record.changed_in_second
    else jsonb_build_array(jsonb_build_object(
      'stated', (
        select coalesce(jsonb_object_agg(f.key, f.value), '{}')
        from jsonb_each(to_jsonb(record)) as f
        where stated ? f.key
      ),
      'replaced', billing.as_stored(record.changed_in_second)
    ))
  end || jsonb_build_object('stated', stated, 'replaced', billing.as_stored(event.previous));
begin
  if jsonb_array_length(updates) > 50 then
    updates := updates - 0;
  end if;

  record := jsonb_populate_record(record, (
    with field as (
      select
        u.arrival,
        f.key as name,
        f.value as stated,
        u.item -> 'replaced' -> f.key as replaced
      from jsonb_array_elements(updates) with ordinality as u (item, arrival),
        jsonb_each(u.item -> 'stated') as f
    )
    select jsonb_object_agg(last.name, last.stated)
    from (
      select distinct on (s.name) s.name, s.stated
      from field s
      order by
        s.name,
        -- Uncorrelated, so it is hashed: 50 updates have hundreds of values.
        (s.name, s.stated) in (
          select r.name, r.replaced from field r where r.replaced <> r.stated
        ),
        s.arrival desc
    ) as last
  ));
  record.changed_in_second := updates;
  return record;
end;
$$;

-- Returns the values of a report as to_jsonb shows them in a record.
create function billing.as_stored(report jsonb)
returns jsonb
language plpgsql stable -- plpgsql keeps its plan, sql does not
set search_path = ''
as $$
begin
  return (
    select coalesce(jsonb_object_agg(f.key, f.value), '{}')
    from jsonb_each(to_jsonb(jsonb_populate_record(null::billing.records, report))) as f
    where report ? f.key
  );
end;
$$;
-- supabase/schemas/billing_04_apply.sql
-- How an array of events is applied:
--   public.billing_apply_events     sorts them; tries again what others may have cured
--     billing.apply                 applies a batch, or each half by itself
--       1. billing.claim_events     adds them to the ledger; leaves out duplicates
--       2. billing.lock_events      waits for other calls with these subscriptions
--       3. billing.mark_erased      marks those of erased accounts (11)
--       4. billing.work_out         folds the rule (03) over the records
--            billing.with_accounts  adds accounts of customers, to work it out again
--       5. billing.write_records
--       6. billing.write_effects    ends failures (06), requests retries (07), notifies (08)
--          billing.count_missed     those that a sweep has found (13)
--       7. billing.answer_all
--
-- Locks are taken in this order:
--   1. rows of the ledger, by key
--   2. accounts that events name; subscriptions by ID; groups of customers
--   4. rows of subscriptions; late, the account of a customer
--   6. rows of failed_events; groups of customers who gained a subscription
--
--   advisory lock          exclusive                          shared
--   account_lock           its erasure                        events and failures that name it
--   subscription_lock      its events, failures and erasure
--   customer_erasure_lock  its erasure                        its failures
--   customer_group_lock    a failure that lacks an account    who adds such customers
--
-- A call waits for the ledger and advisory locks: up to 0.5 s; after step 2 or halving 20 ms; late
-- in the call 1 ms. All are below deadlock_timeout: no call is the victim of a deadlock. It waits
-- for no other row ("No function waits for a row" in docs/decisions.md).
--
-- The planner's policy: a plan that was made while a table was empty would read all of it, and be
-- kept. So plans that suit small tables are off (enable_...) for all that such a function calls,
-- and a condition that would invite another index is an expression ("is true", a subquery). Other
-- plans then look dear, so jit is off, too: compiling them takes far longer than they do.

-- Applies each event of an array exactly once. Returns a row per event, with its outcome (applied,
-- duplicate, stale, erased or failed), and whether a retry is requested, if an event may have cured
-- a failure.
create function public.billing_apply_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan -- planning takes longer than running
set lock_timeout = '500ms'
as $$
declare
  blank billing.event;
  todo billing.event[];
  again billing.event[];
  opened text[];
  may_cure boolean;
  answers billing.answer[];
begin
  blank.handled_at := now();

  select
    coalesce(array_agg(e order by
      e.subscription_id,
      -- Its first bits decide the lock of the group.
      case e.kind
        when 'checkout' then billing.customer_erasure_lock(e.provider, e.report ->> 'customer_id')
      end,
      e.place
    ), '{}'),
    array_agg(e.subscription_id) filter (where billing.opens(e)),
    bool_or(billing.opens(e) or e.kind = 'checkout')
  into todo, opened, may_cure
  from jsonb_populate_recordset(blank, events) as e;

  answers := billing.apply(todo);

  -- Events that lacked a record or account which others may have brought come after them.
  if opened is not null then
    again := array(
      select e
      from unnest(answers) as a
      join unnest(todo) as e on e.place = a.place
      where a.error_code in ('BW001', 'BW005', 'BW006')
        and e.subscription_id = any (opened)
      order by e.subscription_id, billing.opens(e) desc, e.place
    );
    if again <> '{}' then
      answers := array(
        select a
        from unnest(answers) as a
        where a.place not in (select e.place from unnest(again) as e)
      ) || billing.apply(again);
    end if;
  end if;

  may_cure := may_cure and billing.has_request();
  perform billing.tell_version();
  return query select a.*, may_cure from unnest(answers) as a;
end;
$$;

-- Applies sorted events together. What a statement raises concerns all of them, so each half is
-- tried by itself, down to the event at fault: any error, as one of the server may come from one
-- event, and PostgREST before 16 repeats 40001 for ever.
create function billing.apply(todo billing.event[], has_handler boolean default false)
returns billing.answer[]
language plpgsql volatile
set search_path = ''
set jit = off -- the planner's policy
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
  half constant integer := cardinality(todo) / 2;
  claimed billing.event[];
  work billing.work;
  done text; -- never read: an assignment costs less than "perform"
  raised_in text;
  raised_by text;
begin
  claimed := billing.claim_events(todo);
  if cardinality(claimed) = 0 then
    return billing.answer_all(todo, claimed, null);
  end if;

  done := billing.lock_events(claimed);

  if exists (select from billing.erasures) then
    claimed := billing.mark_erased(claimed);
  end if;

  work := billing.work_out(claimed);
  if work.lacking is not null then
    claimed := billing.with_accounts(claimed, work.lacking);
    work := billing.work_out(claimed);
  end if;

  if work.changed is not null then
    done := billing.write_records(work.changed);
  end if;
  if work.steps is not null or work.gained is not null then
    done := billing.write_effects(work);
  end if;
  if claimed[1].is_missed then
    perform billing.count_missed(claimed[1].provider, array(
      select e.type
      from unnest(claimed) as e
      join unnest(work.answers) as a on a.place = e.place
      where a.outcome in ('applied', 'stale')
    ));
  end if;
  if not has_handler then
    -- Deferred checks of the app would fail the whole call at its end.
    set constraints all immediate;
  end if;

  if work.any_failed or cardinality(claimed) < cardinality(todo) then
    return billing.answer_all(todo, claimed, work.answers);
  end if;
  return work.answers;

exception when others or assert_failure then
  if half = 0 then
    get stacked diagnostics raised_in = pg_exception_context;
    raised_by := (regexp_match(raised_in, '(?n)^(?:PL/pgSQL|SQL) function "?([^(" ]+)'))[1];

    -- A function of the app that lacks something (42: a table, a right) is the app's to correct.
    if sqlstate ~ '^42' and (raised_by !~ '^billing\.' or raised_by ~ 'account_of_customer$') then
      return array[(
        todo[1].place,
        'failed',
        'BW008',
        format('%s raised %s: %s', raised_by, sqlstate, sqlerrm)
      )::billing.answer];
    end if;
    return array[(todo[1].place, 'failed', sqlstate, sqlerrm)::billing.answer];
  end if;

  -- The locks of the first half are held while the second is tried: calls could wait in a circle.
  perform set_config('lock_timeout', billing.lock_patience(), true);
  return billing.apply(todo[:half]) || billing.apply(todo[half + 1:]);
end;
$$;

-- Returns the new events; of copies in the batch, the first.
create function billing.claim_events(todo billing.event[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  keys text[];
begin
  with claim as (
    insert into billing.processed_events (provider, event_id, type)
    select e.provider, e.event_id, e.type
    from unnest(todo) as e
    order by e.provider, e.event_id
    on conflict do nothing
    returning provider || '/' || event_id as key
  )
  select array_agg(c.key) into keys from claim as c;

  if cardinality(keys) = cardinality(todo) then
    return todo;
  end if;

  return array(
    select e
    from unnest(todo) as e
    where e.provider || '/' || e.event_id = any (keys)
      and e.place = (
        select min(copy.place)
        from unnest(todo) as copy
        where copy.provider = e.provider and copy.event_id = e.event_id
      )
  );
end;
$$;

create function billing.lock_events(claimed billing.event[])
returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  patient_until constant timestamptz := statement_timestamp() + interval '0.3 s';
  done text;
begin
  -- Only an erasure holds up an event here, before the locks that others may want.
  for i in 1 .. cardinality(claimed) loop
    done := pg_advisory_xact_lock_shared(billing.account_lock(
      coalesce(claimed[i].account_id, claimed[i].named_account, claimed[i].fallback_account)
    ));
  end loop;

  for i in 1 .. cardinality(claimed) loop
    -- lock_timeout is for one wait, and this has waited before. 1ms is less already.
    if clock_timestamp() > patient_until and current_setting('lock_timeout') <> '1ms' then
      done := set_config('lock_timeout', '20ms', true);
    end if;

    if claimed[i].kind = 'checkout' then
      done := pg_advisory_xact_lock_shared(
        billing.customer_group_lock(claimed[i].provider, claimed[i].report ->> 'customer_id')
      );
    else
      done := pg_advisory_xact_lock(billing.subscription_lock(claimed[i].subscription_id));
    end if;
  end loop;

  -- From here on, only what the app has added to the tables waits.
  done := set_config('lock_timeout', billing.lock_patience(), true);
end;
$$;

-- Sets is_erased. The events of a subscription come one after the other.
create function billing.mark_erased(claimed billing.event[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  opened text; -- the subscription that an earlier event makes
begin
  for i in 1 .. cardinality(claimed) loop
    claimed[i].is_erased := billing.erasure_of(
      claimed[i],
      coalesce(claimed[i].subscription_id = opened, false)
    ) is not null;

    if billing.opens(claimed[i]) and not claimed[i].is_erased and (
      num_nonnulls(claimed[i].account_id, claimed[i].fallback_account) > 0
      or billing.is_known_customer(claimed[i].provider, claimed[i].report ->> 'customer_id')
    ) then
      opened := claimed[i].subscription_id;
    end if;
  end loop;
  return claimed;
end;
$$;

-- Returns what is to be written. Locks the records without waiting (55P03).
create function billing.work_out(claimed billing.event[])
returns billing.work
language plpgsql volatile
set search_path = ''
as $$
declare
  work billing.work;
begin
  select
    array_agg((
      (f.event).place,
      (f.step).outcome,
      (f.step).error_code,
      (f.step).error
    )::billing.answer) as answers,

    -- The mark tells in most cases, and costs less.
    array_agg((f.step).record) filter (
      where f.is_last and (
        ((f.step).record).changed_mark is distinct from (f.stored).changed_mark
        or (f.step).record is distinct from f.stored
      )
    ) as changed,

    array_agg((f.step).record) filter (
      where f.is_last and (
        ((f.step).record).account_id is distinct from (f.stored).account_id
        or ((f.step).record).customer_id is distinct from (f.stored).customer_id
      )
    ) as gained,

    -- Without records, because steps are copied often.
    array_agg((
      f.event,
      null,
      (f.step).account_id,
      (f.step).payment,
      (f.step).outcome,
      null,
      null
    )::billing.step) filter (
      where f.is_filed
        or (f.step).payment is not null
        or (f.step).outcome <> 'applied'
        or (f.event).kind = 'checkout'
    ) as steps,

    bool_or(f.is_filed) as any_filed,
    bool_or((f.step).outcome in ('failed', 'erased')) as any_failed,
    array_agg((f.event).place) filter (where (f.step).error_code = 'BW005') as lacking
  into work
  from (
    select
      t.event,
      s.stored,
      -- A running total: the step after each event; the last one has the record.
      billing.fold(s.stored, t.event) over sequence as step,
      lead(true) over sequence is null as is_last,
      -- A failure of the other provider with this event ID does no harm.
      (t.event).retry is not null or (t.event).event_id = any (array(
        select o.event_id
        from billing.failed_events o
        where o.event_id = any (array(select c.event_id from unnest(claimed) as c))
          and o.resolution is null
      )) as is_filed
    from (
      select unnest(claimed) as event, generate_subscripts(claimed, 1) as turn
    ) as t
    left join lateral (
      select r as stored
      from billing.records r
      where r.id = (t.event).subscription_id
      for no key update nowait
    ) as s on true
    window sequence as (partition by (t.event).subscription_id order by t.turn)
  ) as f;

  return work;
end;
$$;

create function billing.with_accounts(claimed billing.event[], lacking integer[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  customer text;
  account text;
begin
  for i in 1 .. cardinality(claimed) loop
    continue when (claimed[i].place = any (lacking)) is not true;

    customer := claimed[i].report ->> 'customer_id';
    account := case
      when customer is not null then billing.account_of_customer(claimed[i].provider, customer)
    end;

    if account is not null then
      -- Known late, so this hardly waits for an erasure, which waits for no lock of this call.
      perform pg_advisory_xact_lock_shared(billing.account_lock(account));
      if exists (select from billing.erasures) then
        -- It may just have been erased.
        account := billing.account_of_customer(claimed[i].provider, customer);
        claimed[i].customers_account := account;
        claimed[i].is_erased := billing.erasure_of(claimed[i]) is not null;
      end if;
    end if;
    claimed[i].customers_account := coalesce(account, claimed[i].fallback_account);
  end loop;
  return claimed;
end;
$$;

-- billing.write_records names all columns of billing.records: "row (r.*)" is slower. It merges into
-- the table, since Postgres before 17 cannot merge into a view; "insert ... on conflict" would fire
-- triggers for new subscriptions.
do $$
begin
  execute (
    select format(
      $sql$
create function billing.write_records(changed billing.records[])
returns void
language plpgsql volatile
set search_path = ''
as $body$
begin
  merge into billing.subscriptions as s
  using unnest(changed) as r on s.id = r.id
  when matched then update set %s
  when not matched then insert (%s) values (r.*);
end;
$body$
      $sql$,
      string_agg(format('%1$I = r.%1$I', a.attname), ', ') filter (where a.attname <> 'id'),
      string_agg(format('%I', a.attname), ', ' order by a.attnum)
    )
    from pg_catalog.pg_attribute a
    where a.attrelid = 'billing.records'::regclass and a.attnum > 0
  );
end;
$$;

create function billing.write_effects(work billing.work)
returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  if work.steps is not null then
    perform billing.notify_accounts(work.steps);

    -- An account that is there wins: the app may have corrected it.
    insert into billing.customers (provider, customer_id, account_id)
    select distinct on (e.provider, c.id) e.provider, c.id, s.account_id
    from unnest(work.steps) as s,
      unnest(array[s.event]) as e,
      lateral (select e.report ->> 'customer_id') as c (id)
    where e.kind = 'checkout'
      and s.outcome = 'applied'
      and c.id is not null
      and s.account_id is not null
    order by e.provider, c.id, e.place
    on conflict do nothing;

    merge into billing.processed_events as p
    using unnest(work.steps) as s
    on p.provider = (s.event).provider
      and p.event_id = (s.event).event_id
      and s.outcome <> 'applied'
    when matched and s.outcome = 'stale' then update set outcome = 'stale'
    -- It failed or is erased, and may come again.
    when matched then delete;
  end if;

  if work.any_filed then
    perform billing.resolve_failures(work.steps);
  end if;

  if work.gained is not null then
    perform pg_advisory_xact_lock_shared(c.lock)
    from (
      select distinct billing.customer_group_lock(g.provider, g.customer_id) as lock
      from unnest(work.gained) as g
      order by 1
    ) as c;

    perform billing.request_retries(
      array_agg(g.provider),
      array_agg(g.id),
      array_agg(g.customer_id)
    )
    from unnest(work.gained) as g;
  end if;

  if work.any_failed then
    update billing.erasures e
    set purchases = e.purchases + p.count
    from (
      select billing.erasure_of(s.event) as hash, count(*)
      from unnest(work.steps) as s
      where s.outcome = 'erased' and (s.event).kind in ('creation', 'opening_update')
      group by 1
    ) as p
    where e.hash = p.hash;
  end if;
end;
$$;

-- Returns an answer per event. A copy of one that failed has failed as well; others that were not
-- claimed are duplicates.
create function billing.answer_all(
  todo billing.event[],
  claimed billing.event[],
  answers billing.answer[]
)
returns billing.answer[]
language plpgsql volatile
set search_path = ''
as $$
begin
  return array(
    select (
      e.place,
      case when c.place = e.place or a.outcome = 'failed' then a.outcome else 'duplicate' end,
      case
        when (a.error_code = 'BW001') is true
          and billing.is_known_customer(e.provider, e.report ->> 'customer_id') then 'BW006'
        else a.error_code
      end,
      a.error
    )::billing.answer
    from unnest(todo) as e
    left join unnest(claimed) as c on c.provider = e.provider and c.event_id = e.event_id
    left join unnest(answers) as a on a.place = c.place
  );
end;
$$;

-- Returns whether the account of a customer is known, or account_of_customer raises an error. Then
-- an event's subscription is ours, and its creation may still come (BW006).
create function billing.is_known_customer(provider text, customer_id text)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  return customer_id is not null
    and billing.account_of_customer(provider, customer_id) is not null;
exception when others then
  return true;
end;
$$;

-- Returns the lock_timeout for the next lock: short, because a call that waits holds locks, and a
-- locked event is tried once per level of halving.
create function billing.lock_patience()
returns text
language sql volatile
return case
  when clock_timestamp() < statement_timestamp() + interval '0.3 s' then '20ms'
  else '1ms'
end;

-- The keys of advisory locks. That of a null is null, and takes no lock.
create function billing.account_lock(account_id text)
returns bigint
language sql immutable
return hashtextextended(account_id, 1);

create function billing.subscription_lock(id text)
returns bigint
language sql immutable
return hashtextextended(id, 0);

create function billing.customer_erasure_lock(provider text, customer_id text)
returns bigint
language sql immutable
return hashtextextended(provider || ':' || customer_id, 2);

-- A thousand: Postgres has room for a few thousand locks, and an app may add a million customers.
create function billing.customer_group_lock(provider text, customer_id text)
returns bigint
language sql immutable
return hashtextextended('billing.customers', 0)
  + (billing.customer_erasure_lock(provider, customer_id) >> 54);
-- supabase/schemas/billing_05_handlers.sql
-- Handlers: functions of the app that run with an event.

create function billing.handler_name(type text)
returns text
language sql immutable
return 'on_' || regexp_replace(type, '[^a-z0-9]', '_', 'g');

-- Returns the app's handlers that can be called.
create function billing.handlers()
returns text[]
language sql stable
set search_path = ''
return array(
  select p.proname::text
  from pg_catalog.pg_proc p
  where p.pronamespace = 'billing'::regnamespace
    and p.proname like 'on\_%'
    and oidvectortypes(p.proargtypes) = 'text, jsonb'
    and has_function_privilege('service_role', p.oid, 'execute')
  order by p.proname
);

-- Runs the app's handler with the settings that it has in the SQL editor, but for time limits.
-- Nothing that it sets outlives it, as the connection is used again.
create function billing.run_handler(event billing.event, payload jsonb)
returns void
language plpgsql volatile
set search_path = public, extensions, pg_temp
set lock_timeout = '2s'
as $$
declare
  role constant text := current_setting('role');
  -- PostgREST sets it for the session.
  messages constant text := current_setting('client_min_messages');
begin
  execute format('select billing.%I($1, $2)', billing.handler_name(event.type))
  using event.provider, payload;

  -- Checks and cursors that it leaves to the end of the transaction.
  set constraints all immediate;
  execute 'close all';

  if current_setting('role') <> role then
    perform set_config('role', 'none', false);
    perform set_config('role', role, true);
  end if;
  reset all;
  perform set_config('client_min_messages', messages, false);
end;
$$;

-- Returns whether a function's source runs deallocate: outside of comments, and of texts unless
-- they are executed.
create function billing.runs_deallocate(source text)
returns boolean
language sql immutable
return source ~* 'deallocate' and regexp_replace(
  source,
  '--[^\r\n]*|/\*(?:[^*]|\*+[^/*])*\*+/'
    || '|\yexecute\s*(?:format\s*)?\(?\s*''\s*(deallocate(?:[^'']|'''')*)'''
    || '|''(?:[^'']|'''')*''',
  ' \1 ',
  'gi'
) ~* (
  '(^|;|\y(begin|then|else|loop)\y)\s*'
    || 'deallocate(\s+(prepare\s+)?(?!end\y)[\w%"]+)?\s*([;,|)]|$)'
);

-- Applies one event, which has the payload as text besides, and runs its handler: both or neither.
-- No SQLSTATE of the handler leaves the database (04).
create function public.billing_apply_handled_event(event jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile
set search_path = ''
set lock_timeout = '500ms'
-- PostgREST applies it to the whole call.
set statement_timeout = '2500ms'
as $$
declare
  e constant billing.event := jsonb_populate_record(
    null::billing.event,
    event || jsonb_build_object('place', 1, 'handled_at', now())
  );
  name constant text := billing.handler_name(e.type);
  handler constant oid := to_regprocedure(format('billing.%I(text, jsonb)', name));
  prepared constant bigint := (select count(*) from pg_prepared_statements where not from_sql);
  answer billing.answer;
  payload jsonb;
  stage text;
begin
  begin
    answer := (billing.apply(array[e], true))[1];

    if answer.outcome in ('applied', 'stale') then
      if handler is null or not has_function_privilege(handler, 'execute') then
        raise exception using errcode = 'BW007', message = format(case
          when handler is not null
            then '%2$s may not execute it: grant execute on function billing.%1$s to %2$s;'
          when exists (
            select from pg_proc p
            where p.pronamespace = 'billing'::regnamespace and p.proname = name::name
          )
            then 'billing.%1$s has other arguments than (provider text, event jsonb).'
          else 'billing.%1$s is not there: '
            || 'create function billing.%1$s(provider text, event jsonb) returns void.'
        end, name, current_user);
      elsif (select billing.runs_deallocate(p.prosrc) from pg_proc p where p.oid = handler) then
        raise exception using errcode = 'BW008', message = format(
          'billing.%s contains deallocate, which would break a connection that it shares: '
            || 'remove it.',
          name
        );
      end if;

      stage := 'read';
      payload := event ->> 'payload';
      stage := 'run';
      perform billing.run_handler(e, payload);
    end if;

    set constraints all immediate;
  exception when others or query_canceled or assert_failure then
    answer := case
      when stage = 'run' or sqlstate = '57014' then (e.place, 'failed', 'BW008', format(
        'billing.%s raised %s: %s',
        name,
        sqlstate,
        left(sqlerrm, 1000)
      ))::billing.answer
      when stage = 'read' then
        (e.place, 'failed', 'BW009', 'jsonb cannot hold the event: ' || sqlerrm)::billing.answer
      else (e.place, 'failed', sqlstate, sqlerrm)::billing.answer
    end;
  end;

  -- Locks of the session, which a rollback does not release.
  perform pg_advisory_unlock_all();

  if (select count(*) from pg_prepared_statements where not from_sql) < prepared then
    -- End the connection: a function that the handler calls ran deallocate. Without what it has
    -- prepared, PostgREST cannot even end this transaction, and others would fail for half an hour.
    perform set_config('exit_on_error', 'on', true);
    raise exception 'billing.% has lost the prepared statements of its connection', name;
  end if;

  perform billing.tell_version();
  return query select answer.*, billing.has_request();
end;
$$;

-- Rehearses an event for the console: returns the outcome that it would have, and undoes it.
create function public.billing_try_event(event jsonb)
returns table (outcome text, error_code text, error text)
language plpgsql volatile
set search_path = ''
-- As for a handler.
set statement_timeout = '2500ms'
as $$
declare
  answer record;
  rehearsal constant jsonb := event || '{"place": 1, "is_rehearsal": true}';
begin
  begin
    if event ? 'payload' then
      select * into answer from public.billing_apply_handled_event(rehearsal);
    else
      select * into answer from public.billing_apply_events(jsonb_build_array(rehearsal));
    end if;
    raise exception using errcode = 'BW000';
  exception when sqlstate 'BW000' then
    return query select answer.outcome, answer.error_code, answer.error;
  end;
end;
$$;
-- supabase/schemas/billing_06_failures.sql
-- Events that failed: how they are stored, repaired, and resolved; what a person may do.

create table billing.failed_events (
  provider text collate "C" not null,
  -- sha256:<hash of the body in hex> if the event has no usable ID.
  event_id text collate "C" not null check (char_length(event_id) between 1 and 255),
  type text,
  payload jsonb,
  -- text if jsonb cannot hold the body, base64 for bytes.
  payload_encoding text not null check (payload_encoding in ('json', 'text', 'base64')),
  original_payload jsonb,

  error_code text not null,
  error text not null,
  attempts integer not null default 1 check (attempts > 0),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),

  -- A person or a cure has requested a retry.
  retry_requested_at timestamptz,
  next_retry_at timestamptz,
  scheduled_retries smallint not null default 0,
  -- The run of the worker that has claimed it.
  retry_lease_id uuid,

  -- How it ended; all null while it is open.
  resolution text check (
    resolution in (
      'applied',
      'duplicate',
      'stale',
      'ignored',
      'by hand'
    )
  ),
  resolved_at timestamptz,
  resolution_note text,
  resolved_by text,

  -- As far as the receiver could read them, because only it knows where a provider puts them.
  kind text,
  subscription_id text collate "C",
  customer_id text collate "C",
  account_id text collate "C",
  occurred_at timestamptz,
  is_missed boolean, -- a sweep has found it

  -- In this order, because people search by the ID alone.
  primary key (event_id, provider),
  check ((resolved_at is null) = (resolution is null))
);

create index failed_events_open on billing.failed_events (error_code, first_failed_at)
where
  resolved_at is null;

create index failed_events_to_retry on billing.failed_events (retry_requested_at)
where
  retry_requested_at is not null;

create index failed_events_next_retry on billing.failed_events (next_retry_at)
where
  next_retry_at is not null;

-- For what cures them, for erasures, and for people.
create index failed_events_subscription_id on billing.failed_events (subscription_id);

create index failed_events_customer_id on billing.failed_events (customer_id);

create index failed_events_account_id on billing.failed_events (account_id);

create index failed_events_resolved on billing.failed_events (resolved_at)
where
  resolved_at is not null;

comment on table billing.failed_events is
  'Verified events that failed; open until resolved_at. See docs/operate.md.';
comment on column billing.failed_events.payload is
  'As received, or as repaired: then original_payload is as received. Null after pruning.';
comment on column billing.failed_events.next_retry_at is
  'When the schedule retries it; null if it does not.';
comment on column billing.failed_events.resolution is
  'How it ended. ignored: it has no effect (UNMAPPED_SUBSCRIPTIONS).';

-- Stores a failure, or counts one more attempt and opens it again. In a call of its own, because
-- what should have applied the event was rolled back.
--
-- failure has columns of billing.failed_events; body, and body_encoding (text or base64); and
-- fallback_account, the same as account_id if only the provider's customer names it.
--
-- Returns `stored`; `retry` if what it lacked has come, and a retry is requested; or, if nothing
-- was stored, `applied` (meanwhile) or `erased`.
--
-- This inserts the event's row into the ledger, and deletes it at the end. Meanwhile, a call that
-- applies the event waits, with all events in it, and then finds the failure and resolves it. So
-- this waits only briefly for a locked row.
create function public.billing_record_failed_event(failure jsonb)
returns text
language plpgsql volatile
set search_path = ''
set lock_timeout = '500ms'
as $$
declare
  failed billing.failed_events := jsonb_populate_record(null::billing.failed_events, failure);
  body constant text := failure ->> 'body';
  event billing.event;
  erasure bytea;
  is_cured boolean;
  is_new boolean;
begin
  insert into billing.processed_events (provider, event_id, type)
  values (failed.provider, failed.event_id, coalesce(failed.type, ''))
  on conflict do nothing;
  if not found then
    return 'applied';
  end if;

  -- A call that applies its creation, or erases its account, holds one of these. So either this
  -- sees what that has done, or that finds this failure.
  perform pg_advisory_xact_lock_shared(billing.account_lock(failed.account_id));
  perform pg_advisory_xact_lock(billing.subscription_lock(failed.subscription_id));
  perform pg_advisory_xact_lock_shared(
    billing.customer_erasure_lock(failed.provider, failed.customer_id)
  );

  event := jsonb_populate_record(null::billing.event, failure);
  event.kind := coalesce(event.kind, 'other');
  event.account_id := nullif(event.account_id, event.fallback_account);
  event.report := jsonb_build_object('customer_id', failed.customer_id);
  erasure := billing.erasure_of(event);
  if erasure is not null then
    update billing.erasures e
    set purchases = e.purchases + 1
    where e.hash = erasure and failed.kind in ('creation', 'opening_update');

    delete from billing.processed_events p
    where (p.provider, p.event_id) = (failed.provider, failed.event_id);
    return 'erased';
  end if;

  begin
    perform set_config('lock_timeout', '20ms', true);
    is_cured := billing.is_cured(
      failed.provider, failed.error_code, failed.subscription_id, failed.customer_id
    );
  exception when lock_not_available then
    -- Customers are being added, maybe a million: the retry will see.
    is_cured := true;
  end;
  perform set_config('lock_timeout', '100ms', true);

  -- The body becomes jsonb here, because JSON.parse turns 1e400 into null and rounds large
  -- integers. One that jsonb refuses (\u0000, a lone surrogate, nesting beyond the stack) is stored
  -- as a JSON string.
  failed.payload := to_jsonb(body);
  failed.payload_encoding := failure ->> 'body_encoding';
  begin
    if failed.payload_encoding = 'text' and not billing.has_long_number(body::jsonb) then
      failed.payload := body::jsonb;
      failed.payload_encoding := 'json';
    end if;
  exception when others then
    null;
  end;

  failed.attempts := 1;
  failed.first_failed_at := now();
  failed.last_failed_at := now();
  failed.scheduled_retries := 0;
  failed.next_retry_at := billing.next_retry(failed.error_code, false, 0);
  failed.retry_requested_at := case when is_cured then now() end;

  insert into billing.failed_events as f
  values (failed.*)
  on conflict (provider, event_id) do update set
    attempts = f.attempts + 1,
    last_failed_at = now(),

    -- A repaired row keeps its payload, because the provider sends the old body again,
    (
      type, payload, payload_encoding,
      kind, subscription_id, customer_id, account_id, occurred_at,
      retry_requested_at
    ) = (
      select
        k.type, k.payload, k.payload_encoding,
        k.kind, k.subscription_id, k.customer_id, k.account_id, k.occurred_at,
        coalesce(f.retry_requested_at, k.retry_requested_at)
      from unnest(array[case when f.original_payload is null then excluded else f end]) as k
    ),
    -- and its error, by which it is retried, while it waits for its retry.
    error_code = case
      when excluded.error_code = 'repair_pending' then f.error_code
      else excluded.error_code
    end,
    error = case
      when excluded.error_code = 'repair_pending' then f.error
      else excluded.error
    end,

    -- The schedule goes on; one that was resolved has none, and begins anew.
    next_retry_at = billing.next_retry(
      excluded.error_code,
      f.original_payload is not null,
      case when f.resolved_at is null then f.scheduled_retries else 0 end,
      planned => f.next_retry_at
    ),
    scheduled_retries = case when f.resolved_at is null then f.scheduled_retries else 0 end,

    resolved_at = null,
    resolution = null,
    resolution_note = null,
    resolved_by = null
  returning f.attempts = 1 into is_new;

  perform billing.count_missed(failed.provider, array[failed.type])
  where is_new and failed.is_missed;

  delete from billing.processed_events p
  where (p.provider, p.event_id) = (failed.provider, failed.event_id);
  return case when is_cured then 'retry' else 'stored' end;
end;
$$;

-- Returns whether a number has more than 40 digits before or after the point, without converting it
-- to text: as text, 1e131071 has 131,072 digits, and a few thousand of them exhaust the memory. No
-- field of an event needs such a number.
create function billing.has_long_number(payload jsonb)
returns boolean
language sql immutable
return exists (
  select
  from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as found (number)
  where abs(found.number::numeric) >= 1e40 or scale(found.number::numeric) > 40
);

-- Keeps the received payload when a person repairs it. It ends the claim of a run that has read the
-- old payload: billing.resolve_failures then refuses its event. A resolved row cannot be repaired:
-- it would look as if the repaired payload had been applied.
create function billing.keep_original_payload()
returns trigger
language plpgsql volatile
set search_path = ''
as $$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is already resolved (%).', new.event_id, new.resolution
      using hint = 'If it was resolved by hand or ignored, open it first: '
        || 'billing.reopen_failed_event.';
  elsif billing.has_long_number(new.payload) then
    raise exception 'Cannot repair %: the payload has a number of more than 40 digits.',
      new.event_id
      using hint = 'Remove the number, or write it as a string.';
  end if;

  new.original_payload := coalesce(old.original_payload, old.payload);
  new.payload_encoding := case
    when jsonb_typeof(new.payload) = 'object' then 'json'
    else new.payload_encoding
  end;
  new.retry_lease_id := null;
  new.next_retry_at := null;
  return new;
end;
$$;

create trigger keep_original_payload
before update of payload on billing.failed_events
for each row
-- With the same attempts, it is not the change of a delivery.
when (
  old.payload is distinct from new.payload
  and new.payload is not null
  and old.attempts = new.attempts
)
execute function billing.keep_original_payload();

-- Resolves the open failures of events that were applied.
--
-- Raises BW004 for the first event that must not be applied now: its failure was repaired, and only
-- the run that has claimed the repair may apply it; or it comes from a run whose claim is gone,
-- because the row was repaired, resolved, cured or claimed again. Each of these ends the claim, so
-- the lease tells.
create function billing.resolve_failures(steps billing.step[])
returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  refused record;
begin
  select
    (s.event).event_id,
    (s.event).retry ->> 'event_id' as row_id,
    failure.is_repaired
  into refused
  from (select e.*, ((e.event).retry ->> 'lease_id')::uuid as lease from unnest(steps) as e) as s
  left join lateral (
    select
      f.original_payload is not null
        and (f.retry_lease_id = s.lease) is not true
        and (s.event).is_rehearsal is not true as is_repaired
    from billing.failed_events f
    where f.provider = (s.event).provider
      and f.event_id = (s.event).event_id
      and f.resolution is null
    for update nowait
  ) as failure on true
  -- The row that the run claimed; its ID may differ from the event's (07).
  left join lateral (
    select f.event_id
    from billing.failed_events f
    where f.provider = (s.event).provider
      and f.event_id = (s.event).retry ->> 'event_id'
      and f.resolution is null
      and f.retry_lease_id = s.lease
    for update nowait
  ) as claimed on true
  where failure.is_repaired or s.lease is not null and claimed.event_id is null
  limit 1;

  if refused.is_repaired then
    raise exception 'Event % was repaired in failed_events and waits for its retry.',
      refused.event_id
      using errcode = 'BW004',
        hint = format('select billing.retry_failed_event(%L);', refused.event_id);
  elsif found then
    raise exception 'The row of % in failed_events was changed after its claim.', refused.row_id
      using errcode = 'BW004';
  end if;

  merge into billing.failed_events as f
  using unnest(steps) as s
  on f.provider = (s.event).provider
    and f.event_id = any (array[(s.event).event_id, (s.event).retry ->> 'event_id'])
    and f.resolution is null

  -- Nothing of an erased account is kept.
  when matched and s.outcome = 'erased' then delete

  when matched and s.outcome <> 'failed' then update set
    resolved_at = now(),
    resolution = s.outcome,
    next_retry_at = null,
    retry_requested_at = null,
    retry_lease_id = null;
end;
$$;


-- For people in the SQL editor --------------------------------------------------------------------

create view billing.open_failures
with (security_invoker = true)
as
select
  count(*) over (partition by f.error_code) as alike,
  f.error_code,
  f.type,
  f.event_id,
  f.provider,
  f.subscription_id,
  f.account_id,
  f.error,
  f.attempts,
  f.first_failed_at,
  f.last_failed_at,
  f.retry_requested_at is not null as retry_requested,
  f.next_retry_at,
  f.original_payload is not null as repaired
from billing.failed_events f
where f.resolved_at is null
order by alike desc, f.error_code, f.first_failed_at;

comment on view billing.open_failures is
  'Open failures, the most frequent error first. alike: how many have the same error_code.';

-- Returns the failure that a person names, if it is in one of these states, and locks it.
create function billing.named_failure(
  event_id text,
  of_provider text,
  of_states text[] default '{open}'
)
returns billing.failed_events
language plpgsql volatile
set search_path = ''
as $$
declare
  named constant billing.failed_events[] := array(
    select f
    from billing.failed_events f
    where f.event_id = named_failure.event_id
      and (f.provider = of_provider) is not false
      and coalesce(f.resolution, 'open') = any (of_states)
    order by f.provider
    for update
  );
begin
  if cardinality(named) = 0 then
    raise exception 'No failure with the id % has the state %.',
      event_id || coalesce(' (provider ' || of_provider || ')', ''),
      array_to_string(of_states, ' or ')
      using hint = format(
        'select provider, resolution from billing.failed_events where event_id = %L;',
        event_id
      );
  elsif cardinality(named) > 1 then
    raise exception 'Providers % and % both have a failed event with the id %: add of_provider.',
      named[1].provider, named[2].provider, event_id;
  end if;
  return named[1];
end;
$$;

create function billing.retry_failed_event(
  event_id text,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  named constant billing.failed_events := billing.named_failure(event_id, of_provider);
begin
  if named.payload is null then
    raise exception 'Cannot retry %: its payload was pruned.', event_id
      using hint = 'Have the provider send it again.';
  end if;

  update billing.failed_events f
  set retry_requested_at = coalesce(f.retry_requested_at, now())
  where (f.provider, f.event_id) = (named.provider, named.event_id);
  return billing.retry_request_answer(1);
end;
$$;

comment on function billing.retry_failed_event is
  'Requests a retry of an open failure, through the code that handles deliveries.';

-- This locks many rows, so waiting for a locked one could deadlock, and hold up deliveries. With
-- old statistics, any join but by hash may compare each row with each other one.
create function billing.retry_failed_events(
  of_type text default null,
  of_error_code text default null,
  failed_since timestamptz default null,
  failed_until timestamptz default null
)
returns text
language plpgsql volatile
set search_path = ''
set jit = off
set enable_nestloop = off
set enable_mergejoin = off
as $$
declare
  requested integer;
  locked integer;
begin
  with matching as materialized (
    select f.provider, f.event_id
    from billing.failed_events f
    where f.resolved_at is null
      and f.payload is not null
      and (of_type is null or f.type = of_type)
      and (of_error_code is null or f.error_code = of_error_code)
      and f.last_failed_at >= coalesce(failed_since, '-infinity')
      and f.last_failed_at < coalesce(failed_until, 'infinity')
  ),
  updated as (
    update billing.failed_events f set
      retry_requested_at = coalesce(f.retry_requested_at, now()),
      scheduled_retries = 0,
      next_retry_at = billing.next_retry(f.error_code, f.original_payload is not null, 0)
    where f.resolved_at is null and (f.provider, f.event_id) in (
      select provider, event_id
      from matching
      join billing.failed_events u using (provider, event_id)
      where u.resolved_at is null
      for update skip locked
    )
    returning 1
  )
  select u.count, m.count - u.count
  into requested, locked
  from (select count(*) from updated) as u, (select count(*) from matching) as m;

  return case
    when requested + locked = 0 then
      'No open failure matches: nothing to retry.'
    when locked = 0 then
      billing.retry_request_answer(requested)
    else
      format('Somebody else has locked %s of them: run this again. ', locked)
        || billing.retry_request_answer(requested)
  end;
end;
$$;

comment on function billing.retry_failed_events is
  'Requests a retry of all open failures, or of those with a type, an error code or a time of '
  'failure; the schedule of each begins anew.';

create function billing.retry_request_answer(requested integer)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  return format('Retry requested: %s. The worker %s.', requested, case
    when billing.wake_worker('retries') then 'is on its way'
    else 'retries it at its next run'
  end);
end;
$$;

create function billing.resolve_failed_event(
  event_id text,
  reason text,
  who text default current_user,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  named billing.failed_events;
begin
  if coalesce(reason, '') !~ '\S' or coalesce(who, '') !~ '\S' then
    raise exception 'Give a reason and your name: %',
      'select billing.resolve_failed_event(''<event id>'', ''<reason>'', ''<your name>'');';
  end if;

  named := billing.named_failure(event_id, of_provider);
  update billing.failed_events f set
    resolved_at = now(),
    resolution = 'by hand',
    resolution_note = reason,
    resolved_by = who,
    next_retry_at = null,
    retry_requested_at = null,
    retry_lease_id = null
  where (f.provider, f.event_id) = (named.provider, named.event_id);
  return 'Resolved by hand. It opens again if the event fails again.';
end;
$$;

comment on function billing.resolve_failed_event is
  'Resolves an open failure without applying the event; stores the reason and the name.';

-- The failure then waits for a person, because its schedule has ended.
create function billing.reopen_failed_event(
  event_id text,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  -- With another resolution, the event has had its effect.
  named constant billing.failed_events
    := billing.named_failure(event_id, of_provider, '{by hand,ignored}');
begin
  update billing.failed_events f set
    resolved_at = null,
    resolution = null,
    resolution_note = null,
    resolved_by = null,
    scheduled_retries = 0
  where (f.provider, f.event_id) = (named.provider, named.event_id);

  return format(
    'It is open again. Retry it with: select billing.retry_failed_event(%L, %L);',
    named.event_id, named.provider
  );
end;
$$;

comment on function billing.reopen_failed_event is
  'Opens a failure again that was resolved by hand or ignored.';
-- supabase/schemas/billing_07_retries.sql
-- Retries of failures: by the schedule, by what cures them, and at the request of a person. A run
-- of the worker claims them, tries their events as deliveries, and settles them.

-- Returns when the schedule retries a failure: as planned, or else after its next wait. Null if no
-- retry can help: the code is permanent, the payload was repaired, or the last retry has failed.
-- retries: how many of the schedule have failed.
create function billing.next_retry(
  error_code text,
  is_repaired boolean,
  retries integer,
  planned timestamptz default null
)
returns timestamptz
language sql stable
return case
  when not is_repaired and error_code in (
    'record_locked', 'database_unavailable', 'overloaded', 'apply_failed', 'subscription_unknown',
    'creation_pending', 'handler_missing', 'deployment_fault', 'internal_error'
  )
  -- Each wait is from the attempt before it.
  then coalesce(
    planned,
    clock_timestamp() + ('{1 min,5 min,30 min,2 h,6 h,12 h,24 h}'::interval[])[retries + 1]
  )
end;

-- Requests a retry of the failures that lacked one of these subscriptions, or the account of one of
-- these customers; returns whether there is one. A repaired one is left to the person who repaired
-- it. A run that is trying one of them loses its claim: it has read the state before, and must not
-- settle it as failed.
--
-- A failure of the other provider with the same ID may be among them; its retry only fails again.
create function billing.request_retries(
  providers text[],
  subscriptions text[],
  customers text[]
)
returns boolean
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
-- An app may add many customers at once.
set plan_cache_mode = force_generic_plan
as $$
declare
  waiting record;
begin
  for waiting in
    select f.provider, f.event_id
    from billing.failed_events f
    -- "is true": the planner's policy (04).
    where (f.provider = any (providers)) is true
      and f.resolution is null
      and f.original_payload is null
      and f.payload is not null
      and (
        f.subscription_id = any (subscriptions)
          and f.error_code in ('subscription_unknown', 'creation_pending', 'account_unknown')
        or f.customer_id = any (customers)
          and f.error_code = 'account_unknown'
      )
    for update skip locked
  loop
    update billing.failed_events f set
      retry_requested_at = coalesce(f.retry_requested_at, now()),
      retry_lease_id = null
    where (f.provider, f.event_id) = (waiting.provider, waiting.event_id);
  end loop;
  return found;
end;
$$;

-- For a customer who is new or corrected, by a checkout or by the app. The lock is shared:
-- transactions that add different customers, in whatever order, must not wait for each other.
create function billing.retry_for_customer()
returns trigger
language plpgsql volatile
set search_path = ''
as $$
begin
  perform pg_advisory_xact_lock_shared(billing.customer_group_lock(new.provider, new.customer_id));
  if billing.request_retries(array[new.provider], null, array[new.customer_id]) then
    perform billing.wake_worker('retries');
  end if;
  return null;
end;
$$;

-- Deferred, so that the lock is short.
create constraint trigger retry_for_customer
after insert or update on billing.customers
deferrable initially deferred
for each row
execute function billing.retry_for_customer();

-- Returns whether what a failure lacked has come since: the record of its subscription, or the
-- account of its customer. Each is added under a lock, which this takes, too, until the end of the
-- transaction: so either this sees it, or request_retries finds the failure. Transactions that add
-- customers queue behind it, so the caller limits the wait.
create function billing.is_cured(
  provider text,
  error_code text,
  subscription_id text,
  customer_id text
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  if error_code in ('subscription_unknown', 'creation_pending', 'account_unknown') then
    perform pg_advisory_xact_lock(billing.subscription_lock(subscription_id));
    if exists (
      select
      from billing.subscriptions s
      where (s.id, s.provider) = (is_cured.subscription_id, is_cured.provider)
    ) then
      return true;
    end if;
  end if;

  if error_code = 'account_unknown' then
    perform pg_advisory_xact_lock(billing.customer_group_lock(provider, customer_id));
    return billing.is_known_customer(provider, customer_id);
  end if;
  return false;
end;
$$;

-- Returns whether a retry is requested that no run has claimed, so that the receiver wakes the
-- worker.
create function billing.has_request()
returns boolean
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
begin
  return exists (
    select
    from billing.failed_events f
    where f.retry_requested_at is not null and f.retry_lease_id is null
  );
end;
$$;

-- Claims up to batch_size failures for a run: requested ones before scheduled ones, each in the
-- order in which the events occurred, at the same time creations first. Two things change that, for
-- all failures of a subscription:
--   An update must not be tried before its creation. So while another session has locked an event,
--   later ones are left out; if this run has claimed one and not settled it, all are.
--   One event may take all the time of a call. So those that an earlier run claimed and did not
--   settle come last, each alone; before them come those that a handler may have refused.
--
-- A worker has 256 MB of memory, so a batch is limited in bytes of JSON text, in which a control
-- character counts six (\u0000).
create function public.billing_claim_failed_events(lease_id uuid, batch_size integer)
returns table (provider text, event_id text, type text, body text, body_encoding text)
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  waiting record;
  failure billing.failed_events;
  blocked text[] := '{}'; -- subscriptions of which later events are left out
  claimed integer := 0;
  bytes bigint := 0;
begin
  if not billing.hold_lease('retries', lease_id) then
    return;
  end if;

  for waiting in
    select d.provider, d.event_id, d.subscription_id, d.rank = 2 as goes_alone
    from (
      select
        f.*,
        max(case
          when f.retry_lease_id = lease_id then 3 -- claimed by this run: left out
          when f.retry_lease_id is not null then 2 -- not settled by an earlier run
          when f.error_code in ('apply_failed', 'handler_missing') then 1 -- perhaps by a handler
          else 0
        end) over (partition by coalesce(f.subscription_id, f.event_id)) as rank
      from billing.failed_events f
      where f.resolved_at is null
        and (f.retry_requested_at is not null or f.next_retry_at <= now())
    ) as d
    where d.rank < 3
    order by
      d.retry_requested_at is null,
      d.rank,
      d.occurred_at nulls last,
      d.kind is distinct from 'creation',
      d.first_failed_at,
      d.event_id
    -- More than a batch, because some may be left out.
    limit batch_size * 20
  loop
    continue when waiting.subscription_id = any (blocked);

    -- Read again under the lock.
    select *
    into failure
    from billing.failed_events f
    where f.provider = waiting.provider
      and f.event_id = waiting.event_id
      -- "is true": the planner's policy (04).
      and (
        f.resolved_at is null
        and (f.retry_requested_at is not null or f.next_retry_at <= now())
      ) is true
    for update skip locked;
    if not found then
      blocked := blocked || waiting.subscription_id;
      continue;
    end if;

    bytes := bytes + octet_length(failure.payload::text);
    exit when claimed > 0 and (waiting.goes_alone or bytes > 4 * 1024 * 1024);

    update billing.failed_events f
    set retry_lease_id = lease_id
    where (f.provider, f.event_id) = (failure.provider, failure.event_id);
    return query
    select
      failure.provider,
      failure.event_id,
      failure.type,
      case
        when failure.payload_encoding = 'json' then failure.payload::text
        else failure.payload #>> '{}'
      end,
      failure.payload_encoding;

    claimed := claimed + 1;
    exit when waiting.goes_alone or claimed = batch_size;
  end loop;
end;
$$;

-- Stores the outcomes of a run's retries; returns how many. results: provider, event_id, outcome
-- (applied, duplicate, stale, ignored, failed or untried), error_code and error if it failed, and
-- what the worker has read from the payload, because that may have been repaired. What was resolved
-- meanwhile stays resolved.
--
-- A failure ends the request, if there was one, and then leaves the schedule as it is; else it uses
-- up a retry of it. A requested retry that found the record locked stays requested, and keeps its
-- claim, so only the next run tries it again. One that the run had no time for (untried) only ends
-- its claim.
--
-- Deliveries wait for these rows of the ledger, so this hardly waits for a locked row: the next run
-- tries it.
create function public.billing_settle_failed_events(lease_id uuid, results jsonb)
returns integer
language plpgsql volatile
set search_path = ''
set lock_timeout = '20ms'
set jit = off
-- Each row is looked up by itself: the time of a join depends on statistics, which may be old.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  -- The row, with the columns of its result instead of its own. fault is the error_code of this
  -- try, null if it succeeded; error_code then still has that of the try before.
  r record;
  settled integer := 0;
begin
  for r in
    select n.*, result ->> 'outcome' as outcome, result ->> 'error_code' as fault
    from jsonb_array_elements(jsonb_strip_nulls(results)) as result
    join billing.failed_events f
      on f.provider = result ->> 'provider' and f.event_id = result ->> 'event_id'
    cross join jsonb_populate_record(f, result) as n
    -- What was applied is resolved already.
    where (f.retry_lease_id = lease_id or f.resolution in ('applied', 'duplicate', 'stale'))
      and (
        result ->> 'error_code' = 'record_locked'
        and f.retry_requested_at is not null
      ) is not true
    order by f.provider, f.event_id
  loop
    begin
      if r.outcome = 'untried' then
        update billing.failed_events f
        set retry_lease_id = null
        where (f.provider, f.event_id, f.retry_lease_id) = (r.provider, r.event_id, lease_id);
        continue;
      end if;

      -- The ID in a repaired payload may differ from that of its row, such as the hash of the body.
      -- That gets into the ledger too, so that the old body, delivered again, does not reopen an
      -- applied event.
      if r.outcome in ('applied', 'duplicate', 'stale') then
        insert into billing.processed_events (provider, event_id, type, outcome)
        values (
          r.provider,
          r.event_id,
          coalesce(r.type, ''),
          replace(r.outcome, 'duplicate', 'applied')
        )
        on conflict do nothing;
      end if;

      update billing.failed_events f set
        type = r.type,
        kind = r.kind,
        subscription_id = r.subscription_id,
        customer_id = r.customer_id,
        account_id = r.account_id,
        occurred_at = r.occurred_at,
        error_code = r.error_code,
        error = r.error,
        resolved_at = case when r.outcome <> 'failed' then coalesce(f.resolved_at, now()) end,
        resolution = nullif(r.outcome, 'failed'),
        attempts = f.attempts + (r.outcome = 'failed')::integer,
        last_failed_at = case when r.outcome = 'failed' then now() else f.last_failed_at end,
        next_retry_at = billing.next_retry(
          r.fault,
          f.original_payload is not null,
          f.scheduled_retries + (f.retry_requested_at is null)::integer,
          planned => case when f.retry_requested_at is not null then f.next_retry_at end
        ),
        scheduled_retries = f.scheduled_retries
          + (r.outcome = 'failed' and f.retry_requested_at is null)::integer,
        retry_lease_id = null,
        retry_requested_at = case
          when billing.is_cured(f.provider, r.fault, r.subscription_id, r.customer_id) then now()
        end
      where (f.provider, f.event_id) = (r.provider, r.event_id)
        and (
          f.resolved_at is null and f.retry_lease_id = lease_id
          or f.resolution = r.outcome
        );
      settled := settled + found::integer;
    exception when lock_not_available then
      null; -- another transaction has locked it
    end;
  end loop;
  return settled;
end;
$$;
-- supabase/schemas/billing_08_notifications.sql
-- Notifications to accounts. The table is an outbox: a row is written with the effect of its event,
-- and a run of the worker delivers it.

create table billing.notifications (
  -- The same for every attempt, also after a restored backup.
  id uuid generated always as (
    md5(provider || '/' || event_id || '/' || kind)::uuid
  ) stored primary key,
  provider text collate "C" not null,
  event_id text collate "C" not null,
  kind text not null default 'payment_failed' check (
    kind in (
      'payment_failed',
      'action_required',
      'trial_ending',
      'recovered',
      'ended'
    )
  ),
  status text not null default 'pending' check (
    status in (
      'pending',
      'sent',
      'dead',
      'undeliverable',
      'withdrawn'
    )
  ),

  -- What it says.
  account_id text collate "C" not null,
  subscription_id text collate "C" not null,
  invoice_id text collate "C",
  hosted_invoice_url text,
  -- In the smallest unit of the currency, such as cents.
  amount_due bigint,
  currency text,
  -- How often the provider has tried to collect the payment.
  attempt_count integer,
  -- When the provider tries again. Null if it does not; if attempt_count is null as well, the event
  -- did not say.
  next_payment_attempt timestamptz,
  trial_end timestamptz,
  -- Of kind ended: whether the account had access by another subscription at the first attempt.
  still_has_access boolean,
  occurred_at timestamptz not null default now(),
  created_at timestamptz not null default now(),

  -- How far its delivery got.
  attempts integer not null default 0 check (attempts >= 0),
  next_attempt_at timestamptz not null default now(),
  last_error text,
  sent_at timestamptz,

  unique (provider, event_id)
);

create index notifications_due on billing.notifications (next_attempt_at)
where
  status = 'pending';

create index notifications_invoice on billing.notifications (invoice_id)
where
  invoice_id is not null;

create index notifications_given_up on billing.notifications (created_at)
where
  status in ('dead', 'undeliverable');

create index notifications_settled on billing.notifications (created_at)
where
  status <> 'pending';

comment on table billing.notifications is
  'The outbox: one per event that NOTIFY asks for.';
comment on column billing.notifications.status is
  'dead: given up. withdrawn: no longer true. undeliverable: no address.';

-- Writes the notifications of events that were applied. With once_per_invoice, the first event of
-- an invoice creates the only one of its kind; one that was withdrawn told the account nothing, and
-- does not count. Two events of an invoice cannot both find none: it belongs to one subscription,
-- whose lock the caller holds.
create function billing.notify_accounts(steps billing.step[])
returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  insert into billing.notifications (
    provider, event_id, kind, account_id, subscription_id, occurred_at, invoice_id,
    hosted_invoice_url, amount_due, currency, attempt_count, next_payment_attempt, trial_end
  )
  select distinct on (e.provider, p.kind, coalesce(o.only_of, e.event_id))
    e.provider,
    e.event_id,
    p.kind,
    s.account_id,
    e.subscription_id,
    coalesce(e.occurred_at, e.handled_at),
    p.invoice_id,
    p.hosted_invoice_url,
    p.amount_due,
    p.currency,
    p.attempt_count,
    p.next_payment_attempt,
    p.trial_end
  from unnest(steps) as s,
    unnest(array[s.event]) as e,
    jsonb_populate_record(
      null::billing.notifications,
      '{"kind": "payment_failed"}' || s.payment
    ) as p,
    lateral (
      select case when s.payment @> '{"once_per_invoice": true}' then p.invoice_id end
    ) as o (only_of)
  where s.payment is not null
    and s.outcome = 'applied'
    -- What a sweep has found late is no news, unless a subscription has ended.
    and (
      p.kind = 'ended'
      or coalesce(e.occurred_at, e.handled_at) > now() - interval '3 days'
      or coalesce(
        e.is_missed,
        (
          select f.is_missed
          from billing.failed_events f
          where (f.event_id, f.provider) = (e.event_id, e.provider)
        )
      ) is not true
    )
    and (
      o.only_of is null
      or (
        select true
        from billing.notifications n
        where n.invoice_id = o.only_of
          -- "is true": the planner's policy (04).
          and (n.provider = e.provider and n.kind = p.kind and n.status <> 'withdrawn') is true
        limit 1
      ) is null
    )
  order by e.provider, p.kind, coalesce(o.only_of, e.event_id), e.place
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
end;
$$;

-- Returns the waits between attempts to deliver a notification, as in the Standard Webhooks
-- specification. The first attempt is made at once, so there is one more than there are waits.
-- After the last one, about three days later, it is dead.
create function billing.notification_waits()
returns interval[]
language sql immutable
return '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];

-- Claims up to batch_size due notifications for a run.
--
-- The attempt is counted here, before sending, so that a notification that crashes every worker is
-- given up in the end. One that is not settled is due again when a lease (10) would have ended. One
-- that is no longer true is withdrawn; but the end of a trial that is newer than the record waits a
-- minute, because the update that set it may still come.
--
-- So that a call stays short, it checks at most a thousand. If it hands out none of them, it asks
-- for the queue itself, so the run goes on.
create function public.billing_claim_notifications(
  lease_id uuid,
  batch_size integer,
  destination text
)
returns setof jsonb
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  due record;
  notification jsonb;
  claimed integer := 0;
begin
  if not billing.hold_lease('notifications', lease_id, destination) then
    return;
  end if;

  for due in
    select
      n.id,
      c.fault,
      case
        when n.attempts > cardinality(billing.notification_waits()) then 'dead'
        when c.fault is null then 'pending'
        when n.kind = 'trial_ending'
          and n.trial_end > now()
          and billing.time_of(greatest(s.changed_mark, s.canceled_mark)) < n.occurred_at
        then 'pending'
        else 'withdrawn'
      end as status
    from billing.notifications n
    -- With a limit, so that it is no join, whose plan may read all subscriptions.
    left join lateral (
      select * from billing.records r where r.id = n.subscription_id limit 1
    ) as s on true
    cross join lateral (
      select case
        when n.attempts > cardinality(billing.notification_waits()) then
          concat_ws('; ', n.last_error, 'the worker of the last attempt did not report a result')

        when n.kind = 'ended' then case
          when s.status is distinct from 'canceled' then 'The subscription goes on.'
        end

        when n.kind = 'recovered' then case
          when s.status is distinct from 'active' then 'The subscription is not active any more.'
          when n.occurred_at < now() - interval '3 days' then 'It is more than three days ago.'
        end

        when s.status = 'canceled' then 'The subscription has ended.'

        when n.kind = 'trial_ending' then case
          when (s.trial_end > now()) is not true then 'The trial has ended.'
          when s.trial_end is distinct from n.trial_end then 'The trial ends at another time.'
          when s.provider_status is distinct from 'trialing' then 'It is no trial any more.'
        end

        -- payment_failed, action_required
        when s.recovered_as_of > n.occurred_at then 'The subscription is active again.'
        when s.provider_status = 'incomplete_expired' then 'The subscription never began.'
      end
    ) as c (fault)
    where n.status = 'pending' and n.next_attempt_at <= now()
    order by n.next_attempt_at
    limit 1000
    for update of n skip locked
  loop
    update billing.notifications n set
      status = due.status,
      last_error = case when due.status = 'pending' then n.last_error else due.fault end,
      attempts = n.attempts + (due.fault is null)::integer,
      next_attempt_at = now() + interval '60 s',
      -- Each attempt must say the same, so the first decides. The subscription that ended gives no
      -- access.
      still_has_access = case
        when n.kind = 'ended' and due.fault is null and n.attempts = 0 then
          public.billing_has_access(n.account_id)
        else n.still_has_access
      end
    where n.id = due.id
    returning to_jsonb(n) into notification;

    if due.fault is null then
      return next notification;
      claimed := claimed + 1;
      exit when claimed >= batch_size;
    end if;
  end loop;

  if found and claimed = 0 then
    update billing.leases l set is_wanted = true where l.queue = 'notifications';
  end if;
end;
$$;

-- Stores the results of a run's notifications, and returns how many. results: id, result (sent,
-- failed, dead, undeliverable, limited or unsent), error, retry_after_seconds.
--
-- A failed one is due again after the next wait plus up to 10 %, so that those that failed together
-- are not all due at the same time. `limited` and `unsent` do not count as attempts.
create function public.billing_settle_notifications(
  lease_id uuid,
  destination text,
  results jsonb
)
returns integer
language plpgsql volatile
set search_path = ''
as $$
declare
  waits constant interval[] := billing.notification_waits();
  settled integer;
begin
  results := billing.accept_results(lease_id, destination, results);

  update billing.notifications n set
    status = case
      when r.result in ('limited', 'unsent') then 'pending'
      when r.result = 'failed' and n.attempts <= cardinality(waits) then 'pending'
      else replace(r.result, 'failed', 'dead')
    end,
    -- A person may have set it to 0 meanwhile.
    attempts = greatest(n.attempts - (r.result in ('limited', 'unsent'))::integer, 0),
    last_error = case when r.result in ('sent', 'unsent') then n.last_error else r.error end,
    sent_at = case when r.result = 'sent' then now() end,
    next_attempt_at = case r.result
      when 'limited' then (
        select p.paused_until
        from billing.pauses p
        where p.destination = billing_settle_notifications.destination
      )
      when 'unsent' then now()
      else now() + greatest(
        waits[n.attempts] * (1 + random() * 0.1),
        least(coalesce(r.retry_after_seconds, 0), 86400) * interval '1 s'
      )
    end
  from (
    select r.*
    from jsonb_to_recordset(results)
      as r (id uuid, result text, error text, retry_after_seconds numeric)
    join billing.notifications o using (id)
    where o.status = 'pending'
    -- A locked one is not waited for, because the others would be sent again.
    for update of o skip locked
  ) as r
  where n.id = r.id;
  get diagnostics settled = row_count;
  return settled;
end;
$$;

-- Locks the queue, and returns the results of a run, to be stored; none if another run has claimed
-- since. Pauses the destination if a result is `limited` (429). For alerts, too.
create function billing.accept_results(lease_id uuid, destination text, results jsonb)
returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform
  from billing.leases l
  where l.queue = 'notifications' and l.lease_id = accept_results.lease_id
  for update;
  if not found then
    return '[]';
  end if;

  insert into billing.pauses as p (destination, paused_until)
  select
    accept_results.destination,
    clock_timestamp()
      + least(greatest(max(coalesce(r.retry_after_seconds, 60)), 1), 86400) * interval '1 s'
  -- Numeric, because a date may be thousands of years away.
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited'
  having count(*) > 0
  on conflict (destination) do update set
    paused_until = greatest(p.paused_until, excluded.paused_until);
  return results;
end;
$$;
-- supabase/schemas/billing_09_alerts.sql
-- Alerts to the operator. They are computed, not stored: what is open, compared with what the
-- operator was told. So nothing untrue is ever sent, and one that could not be sent is due again,
-- with the same ID.

create table billing.alerts (
  -- That of a sweep ends with its provider: events_missed/a
  error_code text primary key,
  -- When the operator was first told since none was open; null once told that all are resolved.
  opened_at timestamptz,
  -- When the operator was last told of new ones: at most once an hour.
  alerted_at timestamptz not null,
  -- How many open failures the operator was told about.
  reported integer not null
);

comment on table billing.alerts is
  'What the operator was told about failures, per error code, and about handlers.';

-- Claims the alerts that are due: news, if the operator was last told of it long enough ago
-- (rests).
--   failure_opened: counts the open failures of a code. News if those that have no retry ahead, or
--     whose first scheduled retry failed, are more than the operator was told, or newer.
--   failures_resolved: the operator was told, and no failure of the code is open.
--   handler_not_listed: handlers that no listed type calls. The argument has those that one calls;
--     null: not compared.
--   events_missed: what sweeps have found, per provider.
--   api_key_refused, sweep_failed: a provider's sweeps have not succeeded.
create function public.billing_claim_alerts(
  lease_id uuid,
  destination text,
  handlers text[] default null
)
returns table (id uuid, kind text, alert jsonb, created_at timestamptz)
language plpgsql volatile
set search_path = ''
as $$
begin
  if not billing.hold_lease('notifications', lease_id, destination) then
    return;
  end if;

  return query
  with newest as materialized (
    select distinct on (f.error_code)
      f.error_code,
      f.provider,
      f.event_id,
      left(f.type, 255) as event_type,
      f.first_failed_at as newest_at,
      -- What Postgres says may repeat an event's data.
      case when f.error_code <> 'apply_failed' then left(f.error, 500) end as error,
      count(*) over alike as open,
      count(*) filter (where d.is_due) over alike as due,
      min(f.first_failed_at) over alike as first_failed_at,
      max(f.last_failed_at) over alike as last_failed_at
    from billing.failed_events f
    cross join lateral (
      select f.scheduled_retries > 0
        or num_nonnulls(f.next_retry_at, f.retry_requested_at) = 0 as is_due
    ) as d
    where f.resolved_at is null
    window alike as (partition by f.error_code)
    order by f.error_code, d.is_due desc, f.first_failed_at desc
  ),

  -- If fewer are open than were reported, the next one is new.
  fewer as (
    update billing.alerts a
    set reported = least(
      a.reported,
      coalesce((select n.open from newest n where n.error_code = a.error_code), 0)
    )
    where a.reported > 0
  ),

  news as (
    select
      'failure_opened' as kind,
      n.error_code as code,
      null as provider, -- of a sweep
      interval '1 hour' as rests,
      to_jsonb(n) - '{newest_at,due}'::text[]
        || jsonb_build_object('new', greatest(n.open - coalesce(a.reported, 0), 1)) as alert
    from newest n
    left join billing.alerts a using (error_code)
    where n.due > coalesce(a.reported, 0) or n.due > 0 and n.newest_at > a.alerted_at

    union all
    select
      'failures_resolved',
      a.error_code,
      null,
      '0',
      jsonb_build_object(
        'opened_at', a.opened_at,
        'resolved', (
          select count(*)
          from billing.failed_events f
          where f.resolved_at >= a.opened_at and f.error_code = a.error_code
        )
      )
    from billing.alerts a
    where a.opened_at is not null
      and a.error_code not in (select n.error_code from newest n)

    union all
    select
      'handler_not_listed',
      'handler_not_listed',
      null,
      '1 day',
      jsonb_build_object('handlers', array_agg('billing.' || h.name order by h.name))
    from unnest(billing.handlers()) as h (name)
    where h.name <> all (handlers)
    having count(*) > 0

    union all
    select
      'events_missed',
      'events_missed',
      m.provider,
      '1 hour',
      jsonb_build_object(
        'missed', sum(m.events),
        'types', jsonb_object_agg(m.type, m.events),
        'found_until', max(m.found_until)
      )
    from (
      select f.provider, f.type, sum(f.events) as events, max(f.found_at) as found_until
      from billing.missed_events f
      where not f.is_reported and f.found_at > now() - interval '7 days'
      group by f.provider, f.type
    ) as m
    group by m.provider

    union all
    select
      c.code,
      c.code,
      s.provider,
      '1 day',
      jsonb_build_object('error', s.last_error, 'last_success_at', s.last_success_at)
    from billing.sweeps s
    cross join lateral (
      select coalesce(substring(s.last_error from '^api_key_refused'), 'sweep_failed') as code
    ) as c
    where s.wanted_at > now() - interval '1 hour'
      and (
        c.code = 'api_key_refused'
        or greatest(s.last_success_at, s.wanted_since) < now() - interval '3 hours'
      )
  )

  select
    md5(concat_ws('/', n.kind, n.code, n.provider, a.alerted_at))::uuid,
    n.kind,
    jsonb_strip_nulls(
      jsonb_build_object('error_code', n.code, 'provider', n.provider) || n.alert
    ),
    now()
  from news n
  left join billing.alerts a on a.error_code = concat_ws('/', n.code, n.provider)
  where (a.alerted_at <= now() - n.rests) is not false;
end;
$$;

-- Stores which alerts were sent; returns how many. results: kind, alert and created_at as claimed,
-- result, retry_after_seconds.
create function public.billing_settle_alerts(
  lease_id uuid,
  destination text,
  results jsonb
)
returns integer
language plpgsql volatile
set search_path = ''
as $$
declare
  sent constant jsonb := jsonb_path_query_array(
    billing.accept_results(lease_id, destination, results),
    '$[*] ? (@.result == "sent")'
  );
begin
  insert into billing.alerts as a (error_code, opened_at, alerted_at, reported)
  select
    -- Sweeps have alerts of their own for each provider.
    concat_ws('/', r.alert ->> 'error_code', case
      when r.kind <> 'failure_opened' then r.alert ->> 'provider'
    end),
    case when r.kind = 'failure_opened' then now() end,
    coalesce(r.created_at, now()),
    coalesce(r.alert -> 'open', '0')::integer -- only failure_opened has it
  from jsonb_to_recordset(sent) as r (kind text, alert jsonb, created_at timestamptz)
  on conflict (error_code) do update set
    opened_at = case
      when excluded.opened_at is not null then coalesce(a.opened_at, excluded.opened_at)
    end,
    -- failures_resolved, which ends opened_at, is not news of a failure.
    alerted_at = case
      when a.opened_at is null or excluded.opened_at is not null then excluded.alerted_at
      else a.alerted_at
    end,
    reported = excluded.reported;

  update billing.missed_events m
  set is_reported = true
  from jsonb_to_recordset(sent) as r (kind text, alert jsonb)
  where r.kind = 'events_missed'
    and m.provider = r.alert ->> 'provider'
    and m.found_at <= (r.alert ->> 'found_until')::timestamptz;

  return jsonb_array_length(sent);
end;
$$;
-- supabase/schemas/billing_10_worker.sql
-- The worker: one run at a time and queue, how it is woken, and what is pruned. On a Supabase
-- project, pg_cron runs the schedule, pg_net makes the call, Vault stores the key. A plain Postgres
-- has none of them.

create table billing.leases (
  queue text primary key check (queue in ('retries', 'notifications', 'sweep')),
  -- The run that has the queue: only it can settle what it claimed.
  lease_id uuid not null,
  held_until timestamptz not null,
  -- Whether another run has asked for the queue meanwhile: there may be more to do.
  is_wanted boolean not null default false,
  -- When a run that the schedule had woken last ended without a fault.
  scheduled_run_at timestamptz
);

comment on table billing.leases is
  'Which run of the worker has a queue: retries, notifications (and alerts), or sweep.';

create table billing.pauses (
  -- resend, the host of NOTIFICATION_URL, or "alerts to" and the host of ALERT_URL
  destination text primary key,
  paused_until timestamptz not null
);

comment on table billing.pauses is
  'Destinations that answered 429. Deleting a row ends the pause.';

-- Takes or extends the lease of a queue, which locks its row, so claims of a queue run one after
-- the other. False if another run has the queue, which then looks once more for work before it
-- ends; or if the destination has asked for a pause.
create function billing.hold_lease(
  queue text,
  lease_id uuid,
  destination text default null
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into billing.leases as l (queue, lease_id, held_until)
  values (
    hold_lease.queue,
    hold_lease.lease_id,
    -- Longer than a batch takes (deliver_notifications.ts, retry_failures.ts).
    clock_timestamp() + interval '60 s'
  )
  on conflict (queue) do update set
    lease_id = excluded.lease_id,
    held_until = excluded.held_until
  where l.lease_id = excluded.lease_id or l.held_until <= clock_timestamp();

  if not found then
    update billing.leases l
    set is_wanted = true
    where l.queue = hold_lease.queue and not l.is_wanted;
    return false;
  end if;

  return not exists (
    select
    from billing.pauses p
    where p.destination = hold_lease.destination and p.paused_until > now()
  );
end;
$$;

-- Ends the lease of a queue at the end of a run, and returns false. But if another run has asked
-- for the queue meanwhile, it returns true, and this run goes on; or, if its time is over
-- (is_last), it ends the lease and wakes the worker.
--
-- is_scheduled: the schedule has woken the run, which had no fault. That is noted also if another
-- run has the lease.
create function public.billing_release_lease(
  queue text,
  lease_id uuid,
  is_last boolean default true,
  is_scheduled boolean default false
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  of_queue constant text := billing_release_lease.queue;
  run constant uuid := billing_release_lease.lease_id;
  was_wanted boolean;
begin
  perform billing.tell_version();

  -- Locked before it is read: a run that is just asking for the queue holds the row. It has asked
  -- by then, or gets the queue.
  perform from billing.leases l where l.queue = of_queue for update;

  update billing.leases l
  set is_wanted = false
  where l.queue = of_queue and l.lease_id = run and l.is_wanted;
  was_wanted := found;
  if was_wanted and not is_last then
    return true;
  end if;

  -- The row may be missing: without a channel, no run ever takes the lease of the notifications.
  insert into billing.leases as l (queue, lease_id, held_until, scheduled_run_at)
  values (of_queue, run, clock_timestamp(), case when is_scheduled then now() end)
  on conflict (queue) do update set
    held_until = case when l.lease_id = run then clock_timestamp() else l.held_until end,
    scheduled_run_at = coalesce(excluded.scheduled_run_at, l.scheduled_run_at);

  perform billing.wake_worker(of_queue) where was_wanted;
  return false;
end;
$$;


-- The schedule ------------------------------------------------------------------------------------

-- Wakes the worker without waiting for it: it claims its work in the database, so a lost or
-- duplicate call does no harm. Without a queue, it is the schedule that wakes it.
--
-- Returns false if nothing is scheduled, or if the caller has no Vault or pg_net, or may not use
-- it. What fails besides, such as Vault in a project that was restored elsewhere, is a warning: it
-- must not undo its caller.
create function billing.wake_worker(queue text default null)
returns boolean
language plpgsql volatile
set search_path = ''
set lock_timeout = '100ms'
as $$
declare
  call bigint;
begin
  -- A longer timeout may delay the project's other calls through pg_net.
  execute $sql$
    select net.http_post(
      url := u.decrypted_secret || coalesce('?queue=' || $1, ''),
      headers := jsonb_build_object(
        'content-type', 'application/json',
        'apikey', k.decrypted_secret
      ),
      body := '{}'::jsonb,
      timeout_milliseconds := 5000
    )
    from vault.decrypted_secrets u, vault.decrypted_secrets k
    where u.name = 'billing_worker_url'
      and k.name = 'billing_worker_key'
      and u.decrypted_secret is not null
      and k.decrypted_secret is not null
  $sql$ into call using queue;
  return call is not null;
exception
  when undefined_table or undefined_function or insufficient_privilege then
    return false;
  when others or query_canceled or assert_failure then
    raise warning 'The worker was not woken: %', sqlerrm
      using errcode = sqlstate,
        hint = 'Run billing.schedule_worker again, '
          || 'with the URL and the secret key of this project.';
    return false;
end;
$$;

create function billing.schedule_worker(project_url text, secret_key text)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  -- The secret key goes to this URL: over https, or to a local stack, by its names in and out of a
  -- container.
  if coalesce(project_url, '') !~ (
    '^(https://[^/?#@[:space:]]+'
    || '|http://(localhost|127(\.[0-9]{1,3}){3}|kong|host\.docker\.internal)(:[0-9]+)?)/?$'
  ) then
    raise exception 'The project URL must look like %, without a path.',
      'https://<project-ref>.supabase.co'
      using hint = 'Copy it from Project Settings, API. Only a local stack may have http://.';
  end if;
  if coalesce(secret_key, '') !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...).'
      using hint = 'Copy it from Project Settings, API Keys.';
  end if;

  -- Each extension in the schema that Supabase uses; supabase_vault names its own and creates it.
  -- Not "if not exists", because Supabase runs a script after pg_cron is created.
  execute coalesce((
    select string_agg(format('create extension %I %s;', e.name, e.place), ' ')
    from (
      values
        ('pg_cron', 'schema pg_catalog'),
        ('pg_net', 'schema extensions'),
        ('supabase_vault', 'cascade')
    ) as e (name, place)
    where e.name not in (select x.extname from pg_extension x)
  ), '');

  perform billing.unschedule_worker();
  execute $sql$
    select
      vault.create_secret($1, 'billing_worker_url'),
      vault.create_secret($2, 'billing_worker_key'),
      cron.schedule('billing-worker', '* * * * *', 'select billing.wake_worker()'),
      cron.schedule('billing-prune', '*/5 * * * *', 'select billing.prune()')
  $sql$ using rtrim(project_url, '/') || '/functions/v1/billing-worker', secret_key;
  return 'The worker is woken every minute, and old rows are pruned. '
    || 'Undo it with: select billing.unschedule_worker();';
end;
$$;

comment on function billing.schedule_worker is
  'Wakes the worker every minute, and prunes. Run it again to replace URL or key.';

create function billing.unschedule_worker()
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  if to_regclass('cron.job') is not null then
    execute $sql$
      select cron.unschedule(jobname) from cron.job where jobname ~ '^billing-(worker|prune)$'
    $sql$;
  end if;
  if to_regclass('vault.secrets') is not null then
    execute $sql$
      delete from vault.secrets where name in ('billing_worker_url', 'billing_worker_key')
    $sql$;
  end if;
  return 'Only the webhook still wakes the worker, for what it has just stored; '
    || 'and nothing is pruned.';
end;
$$;

comment on function billing.unschedule_worker is
  'Undoes billing.schedule_worker, and deletes its secrets from Vault.';

-- One batch per table and call, so that no call holds locks for long. A provider lets a person
-- resend an event for 30 days, so the ledger still has every event that can arrive again.
create function billing.prune(
  ledger_keeps interval default '90 days',
  settled_rows_keep interval default '90 days',
  payloads_keep interval default '30 days',
  batch_size integer default 20000
)
returns table (ledger_rows bigint, payloads bigint, failures bigint, notifications bigint)
language plpgsql volatile
set search_path = ''
as $$
declare
  -- By ctid, which cannot change while the row is locked. With a join by key, a plan may read the
  -- whole table, or select the batch again for every row.
  batch constant text := $sql$
    where ctid = any (array(
      select ctid
      from billing.%1$I
      where %2$I < now() - $1 and %3$s
      order by %2$I
      limit $2
      for update skip locked
    ))
  $sql$;
begin
  execute 'delete from billing.processed_events'
    || format(batch, 'processed_events', 'processed_at', 'true')
  using ledger_keeps, batch_size;
  get diagnostics ledger_rows = row_count;

  execute 'update billing.failed_events set payload = null, original_payload = null'
    || format(
      batch,
      'failed_events',
      'resolved_at',
      'num_nonnulls(payload, original_payload) > 0'
    )
  using payloads_keep, batch_size;
  get diagnostics payloads = row_count;

  execute 'delete from billing.failed_events'
    || format(batch, 'failed_events', 'resolved_at', 'true')
  using settled_rows_keep, batch_size;
  get diagnostics failures = row_count;

  execute 'delete from billing.notifications'
    || format(batch, 'notifications', 'created_at', 'status <> ''pending''')
  using settled_rows_keep, batch_size;
  get diagnostics notifications = row_count;

  delete from billing.missed_events where found_at < now() - settled_rows_keep;
  update billing.installation
  set pruned_until = greatest(pruned_until, now() - least(ledger_keeps, settled_rows_keep))
  where ledger_rows + failures > 0;

  -- pg_cron keeps a row of each run for ever; that of a run that could not connect has no end.
  begin
    if has_table_privilege(to_regclass('cron.job_run_details'), 'delete') then
      execute $sql$
        delete from cron.job_run_details d
        using cron.job j
        where j.jobname in ('billing-worker', 'billing-prune')
          and d.jobid = j.jobid
          and coalesce(d.end_time, d.start_time, '-infinity') < now() - interval '1 day'
      $sql$;
    end if;
  exception when others then
    raise warning 'Old rows of cron.job_run_details were not deleted: %', sqlerrm
      using errcode = sqlstate;
  end;
  return next;
end;
$$;

comment on function billing.prune is
  'Deletes old rows, up to batch_size per table, but open or pending ones; payloads sooner.';
-- supabase/schemas/billing_11_erasure.sql
-- Erasing an account. Its later events are marked in 04, and dropped by resolve_failures and
-- billing_record_failed_event (06). A new table with data of accounts: delete its rows in
-- erase_account, and name its IDs in ids_of.

create table billing.erasures (
  -- sha256(key || provider || ':' || id), where an account's provider is "account".
  hash bytea primary key,
  erased_at timestamptz not null default now(),
  -- Events since that would have made a record: somebody may be paying.
  purchases integer not null default 0
);

create index erasures_purchases on billing.erasures (purchases)
where
  purchases > 0;

comment on table billing.erasures is
  'IDs of accounts that were erased; see billing.forget_erasure().';

create table billing.erasure_key (key bytea not null);

comment on table billing.erasure_key is
  'One row: the random key of billing.erasures. Without it, IDs cannot be tried.';

insert into billing.erasure_key (key)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Returns the hash by which an event belongs to an account that was erased; null if it does not.
--
-- The first of these decides:
--   1. its subscription was erased;
--   2. it only changes a record that is there, or that an event before it in the call makes
--      (has_record): it belongs to the record's account, so it was not erased;
--   3. the account that it names;
--   4. the account in billing.customers, by the rules 1 to 3. A person who was erased may come
--      back as the same customer with another account: this row, or a record, is newer;
--   5. a record of its subscription or customer: not erased;
--   6. the account that the provider keeps with the customer, or else the customer.
create function billing.erasure_of(e billing.event, has_record boolean default false)
returns bytea
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  subscription constant text := coalesce(e.subscription_id, e.report ->> 'subscription_id');
  customer constant text := e.report ->> 'customer_id';
  account constant text := coalesce(e.account_id, e.named_account, e.customers_account);
  erased bytea[] := array(
    -- A subquery: the planner's policy (04).
    select (
      select o.hash
      from billing.erasures o
      where o.hash = sha256(k.key || convert_to(i.name, 'UTF8'))
    )
    from billing.erasure_key k,
      unnest(array[
        e.provider || ':' || subscription,
        e.provider || ':' || customer,
        'account:' || coalesce(account, e.fallback_account)
      ]) with ordinality as i (name, place)
    order by i.place
  );
  erased_subscription constant bytea := erased[1];
  erased_customer constant bytea := erased[2];
  erased_account constant bytea := erased[3];
begin
  if erased_subscription is not null or num_nonnulls(variadic erased) = 0 then
    return erased_subscription; -- 1
  end if;

  if e.kind not in ('creation', 'opening_update', 'checkout', 'other')
    and (has_record or exists (select from billing.subscriptions s where s.id = subscription))
  then
    return null; -- 2
  end if;

  if account is not null then
    return erased_account; -- 3
  end if;

  select c.account_id
  into e.customers_account
  from billing.customers c
  where c.provider = e.provider and c.customer_id = customer;
  if found then
    return billing.erasure_of(e); -- 4
  end if;

  if has_record or exists (
    select
    from billing.subscriptions s
    where s.id = subscription or s.provider = e.provider and s.customer_id = customer
  ) then
    return null; -- 5
  end if;
  return case when e.fallback_account is not null then erased_account else erased_customer end;
end;
$$;

-- Returns the IDs of an account as they are hashed (provider:id), including those that only
-- failures or customers name, with their locks. is_shared: another account has it, too.
create function billing.ids_of(account text)
returns table (name text, id text, lock bigint, is_shared boolean)
language sql stable
set search_path = ''
as $$
  with ids as (
    select s.provider, s.id as subscription, s.customer_id as customer
    from billing.subscriptions s
    where s.account_id = account
    union
    select f.provider, f.subscription_id, f.customer_id
    from billing.failed_events f
    where f.account_id = account
    union
    select c.provider, null, c.customer_id
    from billing.customers c
    where c.account_id = account
  )
  select
    i.provider || ':' || i.subscription,
    i.subscription,
    billing.subscription_lock(i.subscription),
    exists (
      select
      from billing.subscriptions s
      where s.id = i.subscription and s.account_id <> account
    )
  from ids i
  where i.subscription is not null
  union
  select
    i.provider || ':' || i.customer,
    i.customer,
    billing.customer_erasure_lock(i.provider, i.customer),
    exists (
      select
      from billing.subscriptions s
      where s.provider = i.provider and s.customer_id = i.customer and s.account_id <> account
      union all
      select
      from billing.customers c
      where c.provider = i.provider and c.customer_id = i.customer and c.account_id <> account
    )
  from ids i
  where i.customer is not null
$$;

-- Remembers by hashes the account's ID and those of its subscriptions and customers, but not those
-- that another account has, too. force: also if a subscription is not canceled; its end will have
-- no effect then.
--
-- It takes all locks or none, so that no delivery waits for what it waits for. The search of the
-- payloads, which takes seconds, comes before them. It misses a failure that is stored meanwhile
-- and has the account's ID only where no format reads it: run it again to find that.
create function billing.erase_account(account_id text, force boolean default false)
returns text
language plpgsql volatile
set search_path = ''
set lock_timeout = '20ms'
set jit = off
set enable_seqscan = off
as $$
declare
  account constant text := erase_account.account_id;
  patient_until constant timestamptz := clock_timestamp() + interval '20 s';
  found_ids text[];
  found_failures text[];
  names text[];
  ids text[];
  locks bigint[];
  uncanceled billing.subscriptions;
  records bigint;
  failures bigint;
  notifications bigint;
begin
  if coalesce(account, '') !~ '\S' then
    raise exception 'Name the account: select billing.erase_account(''<account id>'');';
  end if;

  -- A search of the text takes a third of the time.
  select array_agg(f.event_id), array_agg(f.provider || ':' || f.event_id)
  into found_ids, found_failures
  from billing.failed_events f
  where strpos(f.payload::text, to_jsonb(account)::text) > 0
    and jsonb_path_exists(
      f.payload,
      '$.** ? (@.accountId == $id || @.account_id == $id
        || @.external_id == $id || @.client_reference_id == $id)',
      jsonb_build_object('id', account)
    );

  loop
    begin
      if not pg_try_advisory_xact_lock(billing.account_lock(account)) then
        raise lock_not_available;
      end if;

      -- From here on, no event that names the account, or has its customer, adds an ID.
      locks := array(select i.lock from billing.ids_of(account) as i);

      if cardinality(locks) > 2000 then
        raise exception 'The account has % subscriptions and customers: nothing was erased.',
          cardinality(locks)
          using hint = 'At most 2000 can be locked. '
            || 'First delete some of its rows in billing.failed_events.';
      elsif exists (
        select from unnest(locks) as l (key) where not pg_try_advisory_xact_lock(l.key)
      ) then
        raise lock_not_available;
      end if;

      -- From here on, no event of these IDs does. One may have before.
      if exists (select from billing.ids_of(account) as i where i.lock <> all (locks)) then
        raise lock_not_available;
      end if;

      select s.*
      into uncanceled
      from billing.subscriptions s
      where s.account_id = account
        and s.provider <> 'manual'
        and s.status <> 'canceled'
        and not force
      limit 1;
      if found then
        raise exception 'Subscription % is % at provider %: nothing was erased.',
          uncanceled.id, uncanceled.status, uncanceled.provider
          using hint = 'Cancel it at the provider, and wait until the record is canceled; '
            || 'or use force => true.';
      end if;

      select array_agg(i.name), array_agg(i.id)
      into names, ids
      from billing.ids_of(account) as i
      where not i.is_shared;

      insert into billing.erasures (hash)
      select distinct sha256(k.key || convert_to(n.name, 'UTF8'))
      from billing.erasure_key k, unnest(names || ('account:' || account)) as n (name)
      on conflict do nothing;

      delete from billing.subscriptions s where s.account_id = account;
      get diagnostics records = row_count;

      -- A failure that names another account belongs to that, though its customer is the same.
      delete from billing.failed_events f
      where f.event_id = any (found_ids)
          and f.provider || ':' || f.event_id = any (found_failures)
        or f.account_id = account
        or f.subscription_id = any (ids)
          and f.provider || ':' || f.subscription_id = any (names)
        or f.customer_id = any (ids)
          and f.provider || ':' || f.customer_id = any (names)
          and f.account_id is null;
      get diagnostics failures = row_count;

      delete from billing.customers c where c.account_id = account;

      delete from billing.notifications n where n.account_id = account;
      get diagnostics notifications = row_count;

      return format(
        'Erased: %s subscriptions, %s failed events, %s notifications.',
        records, failures, notifications
      );
    exception when lock_not_available then
      if clock_timestamp() > patient_until then
        raise exception
          'An event of the account is being handled, or its rows are locked: nothing was erased.'
          using errcode = 'lock_not_available', hint = 'Run it again in a minute.';
      end if;
    end;
    perform pg_sleep(0.02);
  end loop;
end;
$$;

comment on function billing.erase_account is
  'Deletes what is stored of an account; its later events have no effect.';

create function billing.forget_erasure(provider text, id text)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  delete from billing.erasures e
  using billing.erasure_key k
  where e.hash = sha256(k.key || convert_to(
    forget_erasure.provider || ':' || forget_erasure.id, 'UTF8'
  ));
  return case
    when found then 'Its events have an effect again. '
      || 'Have the provider send them again, or run: deno task reconcile --apply'
    else 'It was not erased: nothing to forget.'
  end;
end;
$$;

comment on function billing.forget_erasure is
  'Undoes billing.erase_account for a subscription or customer of a provider, or an account '
  '(provider: account).';
-- supabase/schemas/billing_12_account.sql
-- What an app asks about an account, and what a person may give it: grants.
--
-- The functions read windows (views), and only columns that docs/nextjs/billing.sql grants, so
-- users see what a policy lets them, and need no right on schema billing. Their bodies are
-- strings or plpgsql, as of all functions in public: one that was parsed at creation could use
-- schema billing without a check of the caller's right to it. plpgsql keeps its plan.

-- What an app may show. paid_until is the rule of access, which "Who has access" in docs/app.md
-- states with its reasons.
create view public.billing_subscriptions
with (security_invoker = true)
as
select
  s.id,
  s.provider,
  s.account_id,
  s.status,
  s.plan_id,
  s.current_period_end,
  s.canceled_at,
  s.provider_status,
  s.customer_id,
  s.quantity,
  s.cancel_at,
  s.trial_end,
  s.had_trial or s.trial_end is not null as had_trial,
  s.paused,
  s.paused_until,
  s.livemode,
  s.past_due_since,
  s.created_at,
  -- Without items, the plan stands for one.
  coalesce(
    nullif(s.items, '[]'),
    jsonb_build_array(jsonb_build_object('price_id', s.plan_id, 'quantity', s.quantity))
  ) as items,
  s.items_complete,
  case
    when s.status = 'canceled' or s.cancel_at <= now() then null
    when s.paused = 'void' and (s.paused_until <= now()) is not true then null
    when coalesce(s.provider_status, s.status) in ('active', 'trialing') then 'infinity'
    when coalesce(s.provider_status, s.status) = 'past_due' then nullif(
      least(coalesce(s.past_due_since, s.current_period_end, '-infinity'), now()),
      '-infinity'
    )
  end as paid_until
from billing.subscriptions s;

comment on view public.billing_subscriptions is
  'paid_until: infinity if paid; when it became past due (access ends a grace later); or null.';

create view public.billing_subscription_items
with (security_invoker = true)
as
select
  s.id as subscription_id,
  s.provider,
  s.account_id,
  i.item_id,
  i.price_id,
  i.product_id,
  i.quantity,
  i.usage_type,
  i.current_period_end
from public.billing_subscriptions s,
  jsonb_to_recordset(s.items) as i (
    item_id text,
    price_id text,
    product_id text,
    quantity integer,
    usage_type text,
    current_period_end timestamptz
  );

create view billing.subscription_items
with (security_invoker = true)
as
table public.billing_subscription_items;

comment on view billing.subscription_items is
  'One row per item of a subscription.';

create view public.billing_plan_features
with (security_invoker = true)
as
select plan_id, feature, amount, per_unit
from billing.plan_features;

create function public.billing_has_access(
  account_id text,
  grace interval default null
)
returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  given constant interval := greatest(coalesce(grace, public.billing_default_grace()), '0');
begin
  return exists (
    select
    from public.billing_subscriptions s
    where s.account_id = billing_has_access.account_id
      and now() < s.paid_until + given
  );
end;
$$;

-- Returns what an app shows of an account (docs/app.md). Of its subscriptions, it shows the one
-- that gives access longest; of equal ones a provider's before a grant; without access, the newest.
create function public.billing_account(
  account_id text,
  grace interval default null
)
returns jsonb
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan -- planning takes longer than running
set jit = off
set enable_seqscan = off -- plan_features may be small, and grow
as $$
declare
  given constant interval := greatest(coalesce(grace, public.billing_default_grace()), '0');
  shown record; -- nulls without a subscription
  features jsonb;
begin
  select
    a.access,
    case when a.access and isfinite(a.access_until) then a.access_until end as access_until,
    s.id as subscription_id,
    s.provider,
    s.plan_id,
    a.status,
    s.quantity,
    s.current_period_end,
    s.cancel_at,
    s.trial_end,
    s.past_due_since,
    a.status = 'paused' or s.paused is not null and (s.paused_until <= now()) is not true as paused,
    bool_or(s.had_trial) over () as had_trial,
    count(*) filter (where a.access) over () as subscriptions

  into shown
  from public.billing_subscriptions s,
    lateral (
      select
        coalesce(now() < s.paid_until + given, false) as access,
        least(s.cancel_at, s.paid_until + given) as access_until,
        case when s.status = 'canceled' then s.status else coalesce(s.provider_status, s.status) end
          as status
    ) as a
  where s.account_id = billing_account.account_id
  order by
    a.access desc,
    case when a.access then (
      a.access_until,
      s.provider <> 'manual',
      coalesce(s.current_period_end, '-infinity')
    ) end desc,
    s.created_at desc,
    s.id desc
  limit 1;

  -- What all subscriptions include, or else the plan "free".
  select coalesce(jsonb_object_agg(total.feature, total.amount), '{}')
  into features
  from (
    select
      f.feature,
      case
        when bool_and(f.amount is not null) then
          least(sum(f.amount::numeric * f.units), 9223372036854775807)
      end as amount
    from (
      select
        p.feature,
        p.amount,
        case when p.per_unit then coalesce(i.quantity, 1) else 1 end as units
      from public.billing_subscriptions s,
        jsonb_to_recordset(s.items) as i (price_id text, product_id text, quantity integer),
        lateral (
          select distinct on (p.feature) p.feature, p.amount, p.per_unit
          from public.billing_plan_features p
          where p.plan_id in (i.price_id, i.product_id)
          order by p.feature, p.plan_id = i.price_id desc
        ) as p
      where s.account_id = billing_account.account_id
        and now() < s.paid_until + given
        -- A quantity of 0 gives nothing, also if the feature is unlimited or not per unit.
        and (i.quantity <= 0) is not true
      union all
      select p.feature, p.amount, 1
      from public.billing_plan_features p
      where p.plan_id = 'free' and shown.access is not true
    ) as f
    group by f.feature
  ) as total;

  return to_jsonb(shown) || jsonb_build_object(
    'access', coalesce(shown.access, false),
    'features', features
  );
end;
$$;

create function public.billing_feature_amount(
  account_id text,
  feature text,
  grace interval default null
)
returns bigint
language plpgsql stable
set search_path = ''
as $$
declare
  features constant jsonb := public.billing_account(account_id, grace) -> 'features';
begin
  return case when features ? feature then features ->> feature else '0' end;
end;
$$;

comment on function public.billing_feature_amount is
  'How much of a feature an account has; null if unlimited.';

create function public.billing_has_feature(
  account_id text,
  feature text,
  grace interval default null,
  used bigint default 0
)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return coalesce(
    public.billing_feature_amount(account_id, feature, grace) > greatest(used, 0),
    true
  );
end;
$$;

comment on function public.billing_has_feature is
  'Whether an account has more of a feature than it has used.';

-- Looks first, by an index alone, for the few accounts with two.
create function billing.find_double_subscribed()
returns table (account_id text, subscriptions bigint, since timestamptz)
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  given constant interval := greatest(public.billing_default_grace(), '0');
begin
  return query
  select a.account_id, paid.*
  from (
    select s.account_id
    from billing.subscriptions s
    group by s.account_id
    having count(*) > 1
  ) as a,
    lateral (
      select count(*), (array_agg(s.created_at order by s.created_at))[2]
      from public.billing_subscriptions s
      where s.account_id = a.account_id
        and s.provider <> 'manual'
        and now() < s.paid_until + given
      having count(*) > 1
    ) as paid;
end;
$$;

create view billing.double_subscribed
with (security_invoker = true)
as
select account_id, subscriptions, since
from billing.find_double_subscribed();

comment on view billing.double_subscribed is
  'Accounts that pay for more than one subscription.';


-- Grants ------------------------------------------------------------------------------------------

create table billing.grants (
  subscription_id text collate "C" primary key references billing.subscriptions on delete cascade,
  reason text not null,
  granted_by text not null,
  granted_at timestamptz not null default now(),
  ended_reason text,
  ended_by text,
  ended_at timestamptz
);

comment on table billing.grants is
  'Plans that were given to accounts: subscriptions of provider manual, which no event changes.';

create function billing.grant_plan(
  account_id text,
  plan_id text,
  until timestamptz default null,
  reason text default null,
  who text default current_user,
  quantity integer default 1
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  grant_id constant text := 'grant_' || gen_random_uuid();
begin
  if (account_id ~ '\S' and plan_id ~ '\S' and reason ~ '\S') is not true
    or until <= now()
    or quantity <= 0
  then
    raise exception
      'A grant needs an account, a plan, a reason, a future end or none, and a quantity above 0.';
  end if;

  insert into billing.subscriptions (id, provider, account_id, status, plan_id, cancel_at, quantity)
  values (
    grant_id, 'manual', account_id, 'active', plan_id, nullif(until, 'infinity'), quantity
  );
  insert into billing.grants (subscription_id, reason, granted_by)
  values (grant_id, reason, who);
  return grant_id;
end;
$$;

create function billing.end_grant(
  grant_id text,
  reason text,
  who text default current_user
)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  update billing.grants g
  set ended_reason = end_grant.reason, ended_by = who, ended_at = now()
  where g.subscription_id = grant_id and g.ended_at is null and end_grant.reason ~ '\S';
  if not found then
    raise exception
      'Nothing was ended: % is no grant, or has ended, or no reason is given.', grant_id;
  end if;

  update billing.subscriptions s
  set status = 'canceled', canceled_at = now()
  where s.id = grant_id;
  return format('%s has ended.', grant_id);
end;
$$;

create view public.billing_grants
with (security_invoker = true)
as
select
  subscription_id,
  reason,
  granted_by,
  granted_at,
  ended_reason,
  ended_by,
  ended_at
from billing.grants;
-- supabase/schemas/billing_13_sweep.sql
-- Events that never came. About once an hour, the worker (sweep.ts) lists a provider's events, and
-- applies those that no delivery has brought.

create table billing.installation (
  installed_at timestamptz not null default now(),
  -- billing.prune has deleted what was known of events from before.
  pruned_until timestamptz
);

insert into billing.installation default values;

comment on table billing.installation is
  'One row. No sweep applies an event from before either time.';

create table billing.sweeps (
  provider text collate "C" primary key,
  -- How far the events of the types that always take effect were compared.
  swept_until timestamptz,
  -- The same of each further type.
  types jsonb not null default '{}',
  -- Where the next list begins, if the provider lists by a cursor of its own.
  position text collate "C",
  -- Whether the next sweep goes on just there, because the last has not come to its end.
  goes_on boolean not null default false,

  last_run_at timestamptz,
  last_success_at timestamptz,
  last_error text,
  -- From the last run to the next.
  rests interval not null default '0',
  -- How many events of the last 90 days were applied, stale or stored as failures.
  found bigint not null default 0,

  -- When the worker first and last said that it has a key.
  wanted_since timestamptz not null default now(),
  wanted_at timestamptz not null default now()
);

comment on table billing.sweeps is
  'How far the worker has looked for events that never came. To begin anew, delete the row.';

create table billing.missed_events (
  provider text collate "C" not null,
  found_at timestamptz not null default now(),
  type text not null,
  events integer not null,
  is_reported boolean not null default false,
  primary key (found_at, provider, type)
);

comment on table billing.missed_events is
  'What sweeps have found, by type; is_reported: an alert has told the operator.';

-- Called by each scheduled run, with the providers that have a key. If a sweep is due, wakes the
-- worker for it, so that it has processor time of its own. Returns true if nothing can wake it: the
-- run then sweeps itself.
create function public.billing_request_sweep(providers text[])
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  insert into billing.sweeps as s (provider)
  select p from unnest(providers) as p
  on conflict (provider) do update set
    wanted_since = case
      when s.wanted_at < now() - interval '1 hour' then now()
      else s.wanted_since
    end,
    wanted_at = now();

  return exists (
    select
    from billing.sweeps s
    where s.provider = any (providers) and (s.last_run_at + s.rests <= now()) is not false
  ) and not billing.wake_worker('sweep');
end;
$$;

-- Begins a sweep. Returns no row if another run has the queue, or the provider has asked for a
-- pause.
create function public.billing_claim_sweep(
  lease_id uuid,
  provider text,
  destination text
)
returns table (
  swept_until timestamptz,
  types jsonb,
  "position" text,
  goes_on boolean,
  not_before timestamptz
)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  if not billing.hold_lease('sweep', lease_id, destination) then
    return;
  end if;

  return query
  insert into billing.sweeps as s (provider, last_run_at, rests)
  values (billing_claim_sweep.provider, now(), '5 min')
  on conflict (provider) do update set
    last_run_at = excluded.last_run_at,
    -- Unless it is settled: the worker was killed.
    rests = excluded.rests,
    wanted_at = now()
  returning
    s.swept_until,
    s.types,
    s.position,
    s.goes_on,
    (select greatest(i.installed_at, i.pruned_until) from billing.installation i);
end;
$$;

-- Returns those events that are unknown, in the same order. An ID is known if either provider has
-- it: both may be the same account.
create function public.billing_missing_events(event_ids text[])
returns text[]
language sql stable
set search_path = ''
as $$
  select array(
    select e.id
    from unnest(event_ids) with ordinality as e (id, place)
    where not exists (
        select
        from billing.processed_events p
        where p.provider in ('a', 'b') and p.event_id = e.id
      )
      and not exists (
        select
        from billing.failed_events f
        where f.provider in ('a', 'b') and f.event_id = e.id
      )
    order by e.place
  )
$$;

-- Counts what a sweep has found ("A sweep applies what it finds" in docs/decisions.md).
create function billing.count_missed(provider text, types text[])
returns void
language sql volatile
set search_path = ''
begin atomic
  insert into billing.missed_events as m (provider, type, events)
  select count_missed.provider, t.type, count(*)
  from unnest(types) as t (type)
  group by t.type
  -- Each half of a call has the same time.
  on conflict (found_at, provider, type) do update set events = m.events + excluded.events;
end;

-- Stores how far a sweep has come, or why it failed. Returns whether the run still has the queue.
create function public.billing_settle_sweep(
  lease_id uuid,
  provider text,
  destination text,
  result jsonb
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  update billing.sweeps s set
    swept_until = coalesce(r.swept_until, s.swept_until),
    types = s.types || r.types,
    position = r.position,
    goes_on = r.goes_on,
    last_success_at = case when r.has_failed then s.last_success_at else now() end,
    last_error = r.error,
    rests = r.rests_seconds * interval '1 s',
    found = (
      select coalesce(sum(m.events), 0)
      from billing.missed_events m
      where m.provider = billing_settle_sweep.provider
    )
  from jsonb_to_record(result) as r (
    swept_until timestamptz,
    types jsonb,
    position text,
    goes_on boolean,
    error text,
    has_failed boolean,
    rests_seconds integer
  )
  where s.provider = billing_settle_sweep.provider;

  insert into billing.pauses as p (destination, paused_until)
  select
    billing_settle_sweep.destination,
    clock_timestamp() + (result -> 'pause_seconds')::integer * interval '1 s'
  where result ? 'pause_seconds'
  on conflict (destination) do update set paused_until = excluded.paused_until;

  return billing.hold_lease('sweep', lease_id);
end;
$$;
-- supabase/schemas/billing_14_access.sql
-- What else the Data API reaches, and who may do what. Default privileges on it are worth nothing:
-- only service_role may use schema billing.

-- For monitoring ----------------------------------------------------------------------------------

create view billing.events_per_hour
with (security_invoker = true)
as
select
  date_trunc('hour', e.at) as hour,
  e.type,
  e.outcome,
  count(*) as events
from (
  select p.processed_at as at, p.type, p.outcome
  from billing.processed_events p
  union all
  select f.last_failed_at, f.type, 'failed'
  from billing.failed_events f
  where f.resolved_at is null
) as e
where e.at > now() - interval '3 days'
group by hour, e.type, e.outcome
order by hour desc, events desc;

comment on view billing.events_per_hour is
  'Events of the last three days. failed: still open.';

create view public.billing_events_per_hour
with (security_invoker = true)
as
select hour, outcome, sum(events) as events
from billing.events_per_hour
group by hour, outcome;

-- Counts migrations, as SCHEMA_VERSION does.
create function billing.schema_version()
returns integer
language sql stable -- no plan keeps it
return 1;

-- A header of PostgREST's answer, so nobody need ask.
create function billing.tell_version()
returns text
language sql volatile
return set_config(
  'response.headers',
  format('[{"billing-schema-version": "%s"}]', billing.schema_version()),
  true
);

create view public.billing_health
with (security_invoker = true)
as
select
  (select max(p.processed_at) from billing.processed_events p) as last_event_at,
  f.open_failures,
  f.oldest_open_failure,
  f.retries_requested,
  n.notifications_pending,
  n.oldest_pending_notification,
  (
    select count(*)
    from billing.notifications d
    where d.status in ('dead', 'undeliverable')
  ) as notifications_given_up,
  (
    select case when count(l.scheduled_run_at) = 2 then min(l.scheduled_run_at) end
    from billing.leases l
  ) as last_scheduled_run_at,
  (
    select min(s.last_success_at)
    from billing.sweeps s
    where s.wanted_at > now() - interval '1 day'
  ) as last_swept_at,
  (
    select coalesce(sum(m.events), 0)
    from billing.missed_events m
    where m.found_at > now() - interval '7 days'
  ) as missed_events,
  billing.handlers() as handlers,
  (
    select coalesce(sum(e.purchases), 0)
    from billing.erasures e
    where e.purchases > 0
  ) as erased_purchases,
  case
    when pg_relation_size(to_regclass('billing.subscriptions_account_id')) < pg_size_bytes('8 MB')
      then (select count(*) from billing.double_subscribed)
  end as double_subscribed,
  billing.schema_version() as schema_version
from (
    select
      count(*) as open_failures,
      min(o.first_failed_at) as oldest_open_failure,
      count(o.retry_requested_at) as retries_requested
    from billing.failed_events o
    where o.resolved_at is null
  ) as f,
  (
    select
      count(*) as notifications_pending,
      min(w.created_at) as oldest_pending_notification
    from billing.notifications w
    where w.status = 'pending'
  ) as n;

create view billing.health
with (security_invoker = true)
as
table public.billing_health;

comment on view billing.health is
  'last_scheduled_run_at: when the schedule last ran both queues without a fault. '
  'missed_events: never delivered, and found by sweeps in the last 7 days. '
  'erased_purchases: events of erased accounts that would have made a record. '
  'double_subscribed: null with over some 100,000 subscriptions.';


-- For commands ------------------------------------------------------------------------------------

-- The records, with their ordering columns.
create view public.billing_records
with (security_invoker = true)
as
select
  s.id,
  s.provider,
  s.account_id,
  s.status,
  s.plan_id,
  s.current_period_end,
  s.canceled_at,
  s.provider_status,
  s.customer_id,
  s.quantity,
  s.cancel_at,
  s.trial_end,
  s.paused,
  s.paused_until,
  s.livemode,
  s.past_due_since,
  s.items,
  s.items_complete,
  billing.time_of(s.account_mark) as account_as_of,
  billing.time_of(s.changed_mark) as changed_as_of,
  coalesce(billing.is_update(s.changed_mark), false) as changed_by_update,
  billing.time_of(s.canceled_mark) as canceled_as_of
from billing.subscriptions s;

create view public.billing_processed_events
with (security_invoker = true)
as
select provider, event_id, type, outcome, processed_at
from billing.processed_events;

-- The version changes whenever the row does.
create view public.billing_failed_events
with (security_invoker = true)
as
select
  provider,
  event_id,
  type,
  payload,
  payload_encoding,
  original_payload,
  error_code,
  error,
  attempts,
  first_failed_at,
  last_failed_at,
  next_retry_at,
  retry_requested_at,
  retry_lease_id,
  resolved_at,
  resolution,
  resolution_note,
  resolved_by,
  kind,
  subscription_id,
  customer_id,
  account_id,
  occurred_at,
  xmin::text as version
from billing.failed_events;

create view public.billing_notifications
with (security_invoker = true)
as
select
  id,
  provider,
  event_id,
  kind,
  status,
  account_id,
  subscription_id,
  invoice_id,
  created_at,
  occurred_at,
  attempts,
  next_attempt_at,
  last_error,
  sent_at
from billing.notifications;

create view public.billing_sweeps
with (security_invoker = true)
as
select
  provider,
  swept_until,
  types,
  last_run_at,
  last_success_at,
  last_error,
  found,
  wanted_since,
  wanted_at
from billing.sweeps;

create view public.billing_customers
with (security_invoker = true)
as
select provider, customer_id, account_id, created_at
from billing.customers;

-- What commands, the worker and handlers call of schema billing, with the same arguments.
do $$
declare
  name text;
  called text;
begin
  foreach name in array '{
    public.billing_retry_failed_event,
    public.billing_retry_failed_events,
    public.billing_resolve_failed_event,
    public.billing_reopen_failed_event,
    public.billing_grant_plan,
    public.billing_end_grant
  }'::text[] loop
    called := replace(name, 'public.billing_', 'billing.');
    execute format(
      $sql$
        create or replace function %s(%s) returns text
        language sql volatile set search_path = '' as 'select %s(%s)'
      $sql$,
      name,
      pg_get_function_arguments(called::regproc),
      called,
      (
        select array_to_string(p.proargnames, ', ')
        from pg_catalog.pg_proc p
        where p.oid = called::regproc
      )
    );
  end loop;
end;
$$;

-- These are created later (99).
create function public.billing_account_of_customer(provider text, customer_id text)
returns text
language plpgsql stable
set search_path = ''
as 'begin return billing.account_of_customer(provider, customer_id); end';

create function public.billing_account_email(account_id text)
returns text
language plpgsql stable
set search_path = ''
as 'begin return billing.account_email(account_id); end';

-- Returns the subscriptions of the events of erased accounts.
create function public.billing_is_erased(events jsonb)
returns setof text
language sql stable
set search_path = ''
as $$
  select e.subscription_id
  from jsonb_populate_recordset(null::billing.event, events) as e
  where billing.erasure_of(e) is not null
$$;


-- Rights ------------------------------------------------------------------------------------------

-- What an app grants (docs/nextjs/billing.sql) stays on what a later migration finds.
do $$
declare
  object text;
  needed text;
begin
  for object, needed in
    select 'public.billing_' || name, 'select'
    from unnest('{
      subscriptions, subscription_items, records, plan_features, processed_events, failed_events,
      customers, notifications, health, events_per_hour, grants, sweeps
    }'::text[]) as name

    union all
    select 'function public.billing_' || name, 'execute'
    from unnest('{
      apply_events, apply_handled_event, try_event, record_failed_event,
      claim_failed_events, settle_failed_events, claim_notifications, settle_notifications,
      claim_alerts, settle_alerts, release_lease,
      request_sweep, claim_sweep, missing_events, settle_sweep,
      retry_failed_event, retry_failed_events, resolve_failed_event, reopen_failed_event,
      account_of_customer, account_email, is_erased,
      has_access, account, feature_amount, has_feature, grant_plan, end_grant
    }'::text[]) as name
  loop
    continue when object = any (current_setting('billing.found', true)::text[]);
    execute format('revoke all on %s from public, anon, authenticated, service_role', object);
    execute format('grant %s on %s to service_role', needed, object);
  end loop;

  for object in select tablename from pg_catalog.pg_tables where schemaname = 'billing' loop
    execute format('alter table billing.%I enable row level security', object);
  end loop;
end;
$$;

grant update on public.billing_failed_events, public.billing_notifications to service_role;
grant insert, update, delete on public.billing_customers, public.billing_plan_features
to service_role;

revoke execute on all functions in schema billing from public;
grant usage on schema billing to service_role;
grant select, insert, update on all tables in schema billing to service_role;
revoke insert, update on billing.erasures, billing.erasure_key, billing.installation
from service_role;
grant update (purchases) on billing.erasures to service_role;
grant delete on
  billing.processed_events,
  billing.failed_events,
  billing.customers,
  billing.plan_features
to service_role;
grant execute on all functions in schema billing to service_role;

-- Only for the SQL editor.
revoke execute on function
  billing.schedule_worker,
  billing.unschedule_worker,
  billing.prune,
  billing.erase_account,
  billing.forget_erasure
from service_role;
-- supabase/schemas/billing_99_yours.sql
-- The three functions that are yours to replace. `deno task add` writes this file once and never
-- again, and no later migration contains it. Keep names, arguments and grants. Put your version
-- into a migration of your own.

-- Returns the account of a customer; null if it is unknown. By default, that is the account in
-- billing.customers, or else the only account of the customer's other subscriptions, ended ones
-- included: a wrong one would give a stranger what another account paid for.
--
-- If it returns null, what the provider keeps with the customer counts, or else the event fails
-- until an account is known. It runs while the locks of the call are held, so it must be quick, and
-- find its rows by an index. If it raises an error, only the event fails.
create or replace function billing.account_of_customer(provider text, customer_id text)
returns text
language sql stable
set search_path = ''
as $$
  select coalesce(
    (
      select c.account_id
      from billing.customers c
      where c.provider = account_of_customer.provider
        and c.customer_id = account_of_customer.customer_id
    ),
    (
      select case when count(distinct s.account_id) = 1 then min(s.account_id) end
      from billing.subscriptions s
      where s.provider = account_of_customer.provider
        and s.customer_id = account_of_customer.customer_id
    )
  )
$$;

comment on function billing.account_of_customer is 'Yours to replace.';

-- Returns the e-mail address of an account; null if it has none. By default, an account is a user
-- of Supabase Auth. service_role may not read auth.users, so this function runs with the rights of
-- its owner (security definer). Without an auth schema, no account has an address.
create or replace function billing.account_email(account_id text)
returns text
language plpgsql stable security definer
set search_path = ''
as $$
declare
  address text;
begin
  if to_regclass('auth.users') is not null
    and account_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
  then
    execute 'select nullif(u.email, '''') from auth.users u where u.id = $1::uuid'
    into address
    using account_id;
  end if;
  return address;
end;
$$;

comment on function billing.account_email is 'Yours to replace.';

create or replace function public.billing_default_grace()
returns interval
language sql stable
set search_path = ''
as $$
  select interval '0'
$$;

comment on function public.billing_default_grace is
  'How long past_due keeps access by default. Yours to replace.';

revoke execute on function public.billing_default_grace from public, anon, authenticated;
grant execute on function public.billing_default_grace to service_role;
revoke execute on function billing.account_of_customer, billing.account_email from public;
grant execute on function billing.account_of_customer, billing.account_email to service_role;
