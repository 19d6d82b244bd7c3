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
