/*
 * What the provider reports about a subscription, besides the columns that the
 * ordering rule began with. Each column comes from the newest creation or update,
 * as plan_id does. A value that is missing or malformed in the event is null; it
 * never fails the event. Rows from before this migration have nulls until their
 * next event, or until `reconcile --apply`.
 */
alter table public.subscriptions
  add column provider_status text,
  add column customer_id text,
  add column quantity integer,
  add column cancel_at timestamptz,
  add column trial_end timestamptz,
  add column paused text,
  add column livemode boolean,
  add column past_due_since timestamptz;

-- An app asks by account, account_of_customer by customer. Neither changes as a
-- rule, so updates of a row still stay on its page.
create index subscriptions_account_id on public.subscriptions (account_id);
create index subscriptions_customer_id on public.subscriptions (provider, customer_id)
where customer_id is not null;

comment on column public.subscriptions.provider_status is
  'The status as the newest creation or update reports it, such as incomplete or trialing. A creation sets status to active, whatever it reports; a deletion does not change this column.';
comment on column public.subscriptions.customer_id is 'The provider''s customer identifier.';
comment on column public.subscriptions.quantity is 'Quantity of the first item, such as seats; null for usage-based prices.';
comment on column public.subscriptions.cancel_at is
  'When the subscription is going to end: the provider''s cancel_at, or else the end of the period if cancel_at_period_end is set; null if it continues.';
comment on column public.subscriptions.trial_end is 'When the trial ends or ended; null if there was none.';
comment on column public.subscriptions.paused is
  'pause_collection.behavior: void, keep_as_draft or mark_uncollectible; null if the collection of payments is not paused.';
comment on column public.subscriptions.livemode is 'True if the provider moved real money, false in its test mode.';
comment on column public.subscriptions.past_due_since is
  'Event time of the newest update that changed the provider''s status to past_due; it remains when the status changes again.';
