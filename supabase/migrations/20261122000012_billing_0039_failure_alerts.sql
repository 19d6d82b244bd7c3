/*
 * What the operator was told about each error code. It is apart from the outbox,
 * whose rows are pruned. At most one row per error code, so it is never pruned.
 */
create table public.failure_alerts (
  error_code text primary key,
  notification_id uuid not null,
  alerted_at timestamptz,
  opened_at timestamptz,
  reported integer not null check (reported >= 0),
  reported_until timestamptz not null
);

alter table public.failure_alerts enable row level security;

revoke all on table public.failure_alerts from public, anon, authenticated, service_role;
grant select, insert, update on table public.failure_alerts to service_role;

comment on table public.failure_alerts is
  'What the operator was told about the failures of each error code. open_alerts writes it.';
comment on column public.failure_alerts.error_code is 'As in failed_events.';
comment on column public.failure_alerts.notification_id is 'The newest failure_opened alert in notifications.';
comment on column public.failure_alerts.alerted_at is
  'When that alert was written; null if it was withdrawn before it was sent. The next one is not written within an hour.';
comment on column public.failure_alerts.opened_at is
  'When the first alert was written since no failure with this code was open; null after they were all resolved.';
comment on column public.failure_alerts.reported is
  'How many of the open failures an alert has counted.';
comment on column public.failure_alerts.reported_until is
  'The first_failed_at of the newest failure that an alert has counted.';
