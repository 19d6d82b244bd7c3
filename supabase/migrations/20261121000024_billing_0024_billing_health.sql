/*
 * Views for monitoring. Both stay fast when the ledger is large: events per hour
 * read the last three days through the index, and the size of the ledger is the
 * planner's estimate.
 */
create index processed_events_processed_at on public.processed_events (processed_at);

create view public.billing_events_per_hour
with (security_invoker = true)
as
select
  date_trunc('hour', e.at) as hour,
  e.type,
  e.outcome,
  count(*) as events
from (
  select p.processed_at as at, p.type, p.outcome
  from public.processed_events p
  where p.processed_at > now() - interval '3 days'
  union all
  select f.last_failed_at, f.type, 'failed'
  from public.failed_events f
  where f.resolved_at is null and f.last_failed_at > now() - interval '3 days'
) as e
group by hour, e.type, e.outcome
order by hour desc, events desc;

revoke all on table public.billing_events_per_hour from public, anon, authenticated, service_role;
grant select on table public.billing_events_per_hour to service_role;

comment on view public.billing_events_per_hour is
  'Events of the last three days per hour, type and outcome (applied, stale, or failed and still open).';

create view public.billing_health
with (security_invoker = true)
as
select
  (select max(p.processed_at) from public.processed_events p) as last_event_at,
  f.open_failures,
  f.oldest_open_failure,
  f.retries_requested,
  n.notifications_pending,
  n.oldest_pending_notification,
  (
    select count(*) from public.notifications d
    where d.status in ('dead', 'undeliverable')
  ) as notifications_given_up,
  (
    select greatest(c.reltuples, 0)::bigint from pg_catalog.pg_class c
    where c.oid = 'public.processed_events'::regclass
  ) as ledger_rows_estimate
from
  (
    select
      count(*) as open_failures,
      min(o.first_failed_at) as oldest_open_failure,
      count(o.retry_requested_at) as retries_requested
    from public.failed_events o
    where o.resolved_at is null
  ) as f,
  (
    select count(*) as notifications_pending, min(w.created_at) as oldest_pending_notification
    from public.notifications w
    where w.status = 'pending'
  ) as n;

revoke all on table public.billing_health from public, anon, authenticated, service_role;
grant select on table public.billing_health to service_role;

-- Notifications that were given up, for the count above.
create index notifications_given_up on public.notifications (created_at)
where status in ('dead', 'undeliverable');

comment on view public.billing_health is
  'One row: the time of the newest event, open failures, pending notifications, notifications that were given up, and the size of the ledger as the planner estimates it.';
