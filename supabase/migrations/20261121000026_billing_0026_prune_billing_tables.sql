/*
 * Deletes old rows, one batch per table and call, so that no call holds locks for
 * long. Run it often; schedule_billing_worker schedules it.
 *
 * The defaults: a provider retries for three days, and lets a person resend an
 * event for 30 days. The ledger keeps 90 days, so it still has every event that
 * can arrive again. Payloads contain personal data and are deleted first, 30 days
 * after the failure was resolved. Open failures and pending notifications are
 * never deleted.
 */
create function public.prune_billing_tables(
  ledger_keeps interval default '90 days',
  settled_rows_keep interval default '90 days',
  payloads_keep interval default '30 days',
  batch_size integer default 20000
)
returns table (ledger_rows bigint, payloads bigint, failures bigint, notifications bigint)
language plpgsql
volatile
set search_path = ''
as $$
begin
  -- By ctid, which cannot change while the row is locked. With a join by key, a
  -- plan may read the whole table, or select the batch again for every row.
  delete from public.processed_events t
  where t.ctid = any (array(
    select o.ctid
    from public.processed_events o
    where o.processed_at < now() - ledger_keeps
    order by o.processed_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics ledger_rows = row_count;

  update public.failed_events t set payload = null, original_payload = null
  where t.ctid = any (array(
    select o.ctid
    from public.failed_events o
    where o.resolved_at < now() - payloads_keep
      and (o.payload is not null or o.original_payload is not null)
    order by o.resolved_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics payloads = row_count;

  delete from public.failed_events t
  where t.ctid = any (array(
    select o.ctid
    from public.failed_events o
    where o.resolved_at < now() - settled_rows_keep
    order by o.resolved_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics failures = row_count;

  delete from public.notifications t
  where t.ctid = any (array(
    select o.ctid
    from public.notifications o
    where o.status <> 'pending' and o.created_at < now() - settled_rows_keep
    order by o.created_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics notifications = row_count;
  return next;
end;
$$;

revoke all on function public.prune_billing_tables(interval, interval, interval, integer)
  from public, anon, authenticated, service_role;

-- Resolved failures and settled notifications, by age.
create index failed_events_resolved on public.failed_events (resolved_at)
where resolved_at is not null;
create index notifications_settled on public.notifications (created_at)
where status <> 'pending';

comment on function public.prune_billing_tables(interval, interval, interval, integer) is
  'Deletes up to batch_size old rows of each table, and the payloads of resolved failures earlier than their rows. Returns how many of each.';
