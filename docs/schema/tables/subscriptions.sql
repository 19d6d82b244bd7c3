-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000001_billing_0001_subscriptions.sql
-- supabase/migrations/20261122000001_billing_0028_provider_reports.sql
-- supabase/migrations/20261122000003_billing_0030_account_of_customer.sql
-- supabase/migrations/20261122000005_billing_0032_apply_subscription_updated.sql

create table public.subscriptions (
  id text not null,
  provider text not null,
  account_id text not null,
  status text not null,
  plan_id text not null,
  current_period_end timestamp with time zone not null,
  canceled_at timestamp with time zone,
  account_as_of timestamp with time zone,
  changed_as_of timestamp with time zone,
  changed_by_update boolean default false not null,
  changed_in_second jsonb default '{}'::jsonb not null,
  canceled_as_of timestamp with time zone,
  provider_status text,
  customer_id text,
  quantity integer,
  cancel_at timestamp with time zone,
  trial_end timestamp with time zone,
  paused text,
  livemode boolean,
  past_due_since timestamp with time zone
) with (fillfactor=80);

alter table public.subscriptions add constraint subscriptions_account_id_check CHECK (((char_length(account_id) >= 1) AND (char_length(account_id) <= 255)));

alter table public.subscriptions add constraint subscriptions_id_check CHECK (((char_length(id) >= 1) AND (char_length(id) <= 255)));

alter table public.subscriptions add constraint subscriptions_pkey PRIMARY KEY (id);

alter table public.subscriptions add constraint subscriptions_plan_id_check CHECK (((char_length(plan_id) >= 1) AND (char_length(plan_id) <= 255)));

alter table public.subscriptions add constraint subscriptions_provider_check CHECK (((char_length(provider) >= 1) AND (char_length(provider) <= 32)));

alter table public.subscriptions add constraint subscriptions_status_check CHECK (((char_length(status) >= 1) AND (char_length(status) <= 255)));

CREATE INDEX subscriptions_account_id ON public.subscriptions USING btree (account_id);

CREATE INDEX subscriptions_customer_id ON public.subscriptions USING btree (provider, customer_id) WHERE (customer_id IS NOT NULL);

alter table public.subscriptions enable row level security;

comment on column public.subscriptions.account_as_of is 'Ordering: event time of the creation that account_id came from; null if it had none, or if account_of_customer was asked.';

comment on column public.subscriptions.account_id is 'The owning account: metadata.accountId of the newest creation that has it, or else the answer of account_of_customer.';

comment on column public.subscriptions.cancel_at is 'When the subscription is going to end: the provider''s cancel_at, or else the end of the period if cancel_at_period_end is set; null if it continues.';

comment on column public.subscriptions.canceled_as_of is 'Ordering: event time of the newest deletion; null if there was none or it had none.';

comment on column public.subscriptions.canceled_at is 'When this service handled the deletion; null if there was none.';

comment on column public.subscriptions.changed_as_of is 'Ordering: event time of the newest creation or update; plan_id and current_period_end came from it.';

comment on column public.subscriptions.changed_by_update is 'Ordering: true if that newest event was an update; within one second, an update is newer than a creation.';

comment on column public.subscriptions.changed_in_second is 'Ordering: what the update dated changed_as_of says that it replaced. After more updates of that second, for each field: the values that they replaced, and the other values that they stated and none of them replaced; at most 20 each.';

comment on column public.subscriptions.customer_id is 'The provider''s customer identifier.';

comment on column public.subscriptions.id is 'The provider''s subscription identifier.';

comment on column public.subscriptions.livemode is 'True if the provider moved real money, false in its test mode.';

comment on column public.subscriptions.past_due_since is 'Event time of the newest update that changed the provider''s status to past_due; it remains when the status changes again.';

comment on column public.subscriptions.paused is 'pause_collection.behavior: void, keep_as_draft or mark_uncollectible; null if the collection of payments is not paused.';

comment on column public.subscriptions.plan_id is 'Price identifier of the first item.';

comment on column public.subscriptions.provider is 'The provider that created it. Events from another provider for it are refused.';

comment on column public.subscriptions.provider_status is 'The status as the newest creation or update reports it, such as incomplete or trialing. A creation sets status to active, whatever it reports; a deletion does not change this column.';

comment on column public.subscriptions.quantity is 'Quantity of the first item, such as seats; null for usage-based prices.';

comment on column public.subscriptions.status is 'active after a creation, canceled after a deletion, otherwise as the provider reports it in an update.';

comment on column public.subscriptions.trial_end is 'When the trial ends or ended; null if there was none.';

comment on table public.subscriptions is 'One row per subscription, kept in step with its provider by apply_billing_events.';

grant INSERT, SELECT, UPDATE on table public.subscriptions to service_role;
