-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000012_billing_0039_failure_alerts.sql

create table public.failure_alerts (
  error_code text not null,
  notification_id uuid not null,
  alerted_at timestamp with time zone,
  opened_at timestamp with time zone,
  reported integer not null,
  reported_until timestamp with time zone not null
);

alter table public.failure_alerts add constraint failure_alerts_pkey PRIMARY KEY (error_code);

alter table public.failure_alerts add constraint failure_alerts_reported_check CHECK ((reported >= 0));

alter table public.failure_alerts enable row level security;

comment on column public.failure_alerts.alerted_at is 'When that alert was written; null if it was withdrawn before it was sent. The next one is not written within an hour.';

comment on column public.failure_alerts.error_code is 'As in failed_events.';

comment on column public.failure_alerts.notification_id is 'The newest failure_opened alert in notifications.';

comment on column public.failure_alerts.opened_at is 'When the first alert was written since no failure with this code was open; null after they were all resolved.';

comment on column public.failure_alerts.reported is 'How many of the open failures an alert has counted.';

comment on column public.failure_alerts.reported_until is 'The first_failed_at of the newest failure that an alert has counted.';

comment on table public.failure_alerts is 'What the operator was told about the failures of each error code. open_alerts writes it.';

grant INSERT, SELECT, UPDATE on table public.failure_alerts to service_role;
