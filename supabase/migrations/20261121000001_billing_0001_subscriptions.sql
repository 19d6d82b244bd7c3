/*
 * Before anything is created: if the database has objects of the names that the
 * receiver's migrations use, this says which, all at once. A project that the
 * receiver is added to may well have its own public.subscriptions. The Supabase
 * CLI prints the message and this statement, so both are short.
 */
do $$
declare
  taken text;
begin
  select string_agg(pg_describe_object(o.classid, o.objid, 0), ', ' order by o.name) into taken
  from (
    select 'pg_class'::regclass, c.oid, c.relname, 'relation'
    from pg_class c where c.relnamespace = 'public'::regnamespace
    union all
    select 'pg_type'::regclass, t.oid, t.typname, 'relation'
    from pg_type t where t.typnamespace = 'public'::regnamespace and t.typrelid = 0
    union all
    select 'pg_proc'::regclass, p.oid, p.proname, 'function'
    from pg_proc p where p.pronamespace = 'public'::regnamespace
  ) as o (classid, objid, name, kind)
  where (o.kind, o.name) in (
    select 'relation', unnest('{
      billing_events_per_hour, billing_health, failed_events, failed_events_open,
      failed_events_resolved, failed_events_to_retry, failure_alerts, notification_pace,
      notifications, notifications_due, notifications_given_up, notifications_invoice,
      notifications_settled, open_failures, processed_events,
      processed_events_processed_at, subscriptions, subscriptions_account_id,
      subscriptions_customer_id}'::name[])
    union all
    select 'function', unnest('{
      account_email, account_of_customer, apply_billing_events,
      apply_invoice_payment_failed, apply_subscription_created, apply_subscription_deleted,
      apply_subscription_updated, apply_updates_together, billing_rights, billing_version,
      claim_billing_events, claim_failed_events, claim_notifications,
      excess_billing_rights, find_subscription, forget_marks_ahead,
      has_access, has_long_number, keep_original_payload,
      lock_failed_event, merge_update, notification_waits, open_alerts,
      provider_of_failed_event, prune_billing_tables, record_failed_event,
      resolve_failed_event, retry_failed_event, retry_failed_events, retry_request_answer,
      revoke_billing_rights, schedule_billing_worker, settle_failed_events,
      settle_notifications, unschedule_billing_worker, wake_billing_worker}'::name[])
  );
  if taken is not null then
    raise exception 'Nothing was created: schema public has % already. Rename or drop them, or move them to another schema. Then push again.', taken;
  end if;
end;
$$;

/*
 * The subscription records: one row per subscription, kept in step with the
 * provider that created it.
 *
 * Events arrive late, twice and in any order. So besides the columns for the
 * app, a row has marks that tell which event each field came from. The ordering
 * rule needs no other memory (docs/decisions.md).
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
-- Room on each page for the next version of a row, so that updates stay on the
-- page and do not touch the index (no indexed column changes after creation).
with (fillfactor = 80);

alter table public.subscriptions enable row level security;

revoke all on table public.subscriptions from public, anon, authenticated, service_role;
grant select, insert, update on table public.subscriptions to service_role;

comment on table public.subscriptions is
  'One row per subscription, kept in step with its provider by apply_billing_events.';
comment on column public.subscriptions.id is 'The provider''s subscription identifier.';
comment on column public.subscriptions.provider is
  'The provider that created it. Events from another provider for it are refused.';
comment on column public.subscriptions.account_id is
  'The owning account, from metadata.accountId of the newest creation.';
comment on column public.subscriptions.status is
  'active after a creation, canceled after a deletion, otherwise as the provider reports it in an update.';
comment on column public.subscriptions.plan_id is 'Price identifier of the first item.';
comment on column public.subscriptions.canceled_at is
  'When this service handled the deletion; null if there was none.';
comment on column public.subscriptions.account_as_of is
  'Ordering: event time of the creation that account_id came from; null if it had none.';
comment on column public.subscriptions.changed_as_of is
  'Ordering: event time of the newest creation or update; plan_id and current_period_end came from it.';
comment on column public.subscriptions.changed_by_update is
  'Ordering: true if that newest event was an update; within one second, an update is newer than a creation.';
comment on column public.subscriptions.changed_in_second is
  'Ordering: for each field, from the updates dated changed_as_of: the values that they replaced, and the other values that they stated and none of them replaced; at most 20 each.';
comment on column public.subscriptions.canceled_as_of is
  'Ordering: event time of the newest deletion; null if there was none or it had none.';
