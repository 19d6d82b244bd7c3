-- A migration of your app: what its signed-in users may do, and a quota. You can run it again.

-- On the table, exactly what the view reads. Never grant "usage" on schema billing: without it,
-- users cannot reach the table itself.
grant select (
  id,
  provider,
  account_id,
  status,
  plan_id,
  current_period_end,
  canceled_at,
  provider_status,
  customer_id,
  quantity,
  cancel_at,
  trial_end,
  had_trial,
  paused,
  paused_until,
  livemode,
  past_due_since,
  created_at,
  items,
  items_complete
) on table billing.subscriptions to authenticated;

-- On the view, what the functions read, and customer_id for the portal.
grant select (
  id,
  provider,
  account_id,
  status,
  plan_id,
  current_period_end,
  provider_status,
  customer_id,
  quantity,
  cancel_at,
  trial_end,
  had_trial,
  paused,
  paused_until,
  past_due_since,
  created_at,
  items,
  paid_until
) on table public.billing_subscriptions to authenticated;

grant select on table billing.plan_features, public.billing_plan_features to authenticated;

grant execute on function
  public.billing_account,
  public.billing_has_access,
  public.billing_has_feature,
  public.billing_feature_amount,
  public.billing_default_grace
to authenticated;

drop policy if exists "Users read what plans include" on billing.plan_features;
create policy "Users read what plans include"
on billing.plan_features for select to authenticated
using (true);


-- The quota: how much of a feature an account has used.
create table if not exists public.used_features (
  account_id text,
  feature text,
  used bigint not null,
  primary key (account_id, feature)
);

alter table public.used_features enable row level security;

-- Uses n more of a feature. Returns false if there is no room for them. One statement compares and
-- writes, so two at once cannot both take the last place.
create or replace function public.use_feature(feature text, n bigint default 1)
returns boolean
language sql volatile security definer
set search_path = ''
as $$
  with written as (
    insert into public.used_features as u (account_id, feature, used)
    select a.id, use_feature.feature, n
    from (select auth.uid()::text) as a (id)
    where n > 0
      and public.billing_has_feature(a.id, use_feature.feature, used => n - 1)
    on conflict (account_id, feature) do update
    set used = u.used + n
    where public.billing_has_feature(u.account_id, u.feature, used => u.used + n - 1)
    returning 1
  )
  select exists (select from written)
$$;

revoke execute on function public.use_feature from public, anon;
grant execute on function public.use_feature to authenticated;

-- Supabase does this by itself, the local stack does not.
notify pgrst, 'reload schema';
