-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000004_billing_0004_notifications.sql
-- supabase/migrations/20261121000024_billing_0024_billing_health.sql
-- supabase/migrations/20261121000026_billing_0026_prune_billing_tables.sql
-- supabase/migrations/20261122000002_billing_0029_payment_details.sql
-- supabase/migrations/20261122000009_billing_0036_apply_invoice_payment_failed.sql
-- supabase/migrations/20261122000010_billing_0037_alerts_in_outbox.sql

create table public.notifications (
  id uuid default gen_random_uuid() not null,
  provider text,
  event_id text,
  account_id text,
  subscription_id text,
  invoice_id text,
  status text default 'pending'::text not null,
  attempts integer default 0 not null,
  last_error text,
  next_attempt_at timestamp with time zone default now() not null,
  lease_id uuid,
  limited_since timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  sent_at timestamp with time zone,
  hosted_invoice_url text,
  amount_due bigint,
  currency text,
  attempt_count integer,
  next_payment_attempt timestamp with time zone,
  kind text default 'payment_failed'::text not null,
  alert jsonb
);

alter table public.notifications add constraint notifications_attempts_check CHECK ((attempts >= 0));

alter table public.notifications add constraint notifications_content_check CHECK (
CASE
    WHEN (kind = 'payment_failed'::text) THEN ((alert IS NULL) AND (num_nulls(provider, event_id, account_id, subscription_id) = 0))
    ELSE COALESCE((jsonb_typeof((alert -> 'error_code'::text)) = 'string'::text), false)
END);

alter table public.notifications add constraint notifications_kind_check CHECK ((kind = ANY (ARRAY['payment_failed'::text, 'failure_opened'::text, 'failures_resolved'::text])));

alter table public.notifications add constraint notifications_pkey PRIMARY KEY (id);

alter table public.notifications add constraint notifications_provider_event_id_key UNIQUE (provider, event_id);

alter table public.notifications add constraint notifications_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'sent'::text, 'dead'::text, 'undeliverable'::text, 'withdrawn'::text])));

CREATE INDEX notifications_due ON public.notifications USING btree (((kind <> 'payment_failed'::text)), next_attempt_at) WHERE (status = 'pending'::text);

CREATE INDEX notifications_given_up ON public.notifications USING btree (created_at) WHERE (status = ANY (ARRAY['dead'::text, 'undeliverable'::text]));

CREATE INDEX notifications_invoice ON public.notifications USING btree (provider, invoice_id) WHERE (invoice_id IS NOT NULL);

CREATE INDEX notifications_settled ON public.notifications USING btree (created_at) WHERE (status <> 'pending'::text);

alter table public.notifications enable row level security;

comment on column public.notifications.account_id is 'The account that owned the subscription when the event was applied; null for alerts.';

comment on column public.notifications.alert is 'What an alert says, as it was when the row was written; null for accounts.';

comment on column public.notifications.amount_due is 'In the smallest unit of the currency, such as cents.';

comment on column public.notifications.attempt_count is 'How often the provider has tried to collect the payment.';

comment on column public.notifications.attempts is 'Counted when a worker claims it, before sending. Not counted if the receiver answers 429.';

comment on column public.notifications.currency is 'Three lower-case letters, such as eur.';

comment on column public.notifications.event_id is 'The event that created it; null for alerts.';

comment on column public.notifications.hosted_invoice_url is 'Where the account can pay the invoice; https only.';

comment on column public.notifications.id is 'The same for all attempts, so that the receiver can deduplicate by it.';

comment on column public.notifications.invoice_id is 'The invoice that was not paid, if the event names it.';

comment on column public.notifications.kind is 'payment_failed: to an account. failure_opened and failures_resolved: alerts to the operator (ALERT_URL).';

comment on column public.notifications.last_error is 'The error of the last failed attempt.';

comment on column public.notifications.lease_id is 'The newest claim, until it is settled. A worker can settle only its own claim.';

comment on column public.notifications.limited_since is 'When the current series of 429 answers began; null after any other answer.';

comment on column public.notifications.next_attempt_at is 'While pending: when it is due, or when the lease of the worker that claimed it ends.';

comment on column public.notifications.next_payment_attempt is 'When the provider tries again. Null if it does not; if attempt_count is null too, the event did not state it.';

comment on column public.notifications.status is 'pending until it is delivered (sent), given up (dead), or the account turns out to have no address (undeliverable). withdrawn: an alert that was no longer true before it was delivered.';

comment on table public.notifications is 'The outbox: one notification per invoice.payment_failed event to its account, and alerts to the operator.';

grant INSERT, SELECT, UPDATE on table public.notifications to service_role;
