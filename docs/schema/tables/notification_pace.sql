-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000021_billing_0021_claim_notifications.sql
-- supabase/migrations/20261122000010_billing_0037_alerts_in_outbox.sql

create table public.notification_pace (
  destination text not null,
  next_send_at timestamp with time zone not null
);

alter table public.notification_pace add constraint notification_pace_pkey PRIMARY KEY (destination);

alter table public.notification_pace enable row level security;

comment on column public.notification_pace.destination is 'The receiver: resend, the host of NOTIFICATION_URL, or "alerts to" and the host of ALERT_URL.';

comment on column public.notification_pace.next_send_at is 'Nothing is sent before this time, because of the rate limit or a 429 with Retry-After.';

comment on table public.notification_pace is 'For each receiver of notifications, when the next one may be sent. Deleting a row ends the pause.';

grant INSERT, SELECT, UPDATE on table public.notification_pace to service_role;
