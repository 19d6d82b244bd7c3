-- What an app asks about an account, and what a person may give it: grants.
--
-- The functions read windows (views), and only columns that docs/nextjs/billing.sql grants, so
-- users see what a policy lets them, and need no right on schema billing. Their bodies are
-- strings or plpgsql, as of all functions in public: one that was parsed at creation could use
-- schema billing without a check of the caller's right to it. plpgsql keeps its plan.

-- What an app may show. paid_until is the rule of access, which "Who has access" in docs/app.md
-- states with its reasons.
create view public.billing_subscriptions
with (security_invoker = true)
as
select
  s.id,
  s.provider,
  s.account_id,
  s.status,
  s.plan_id,
  s.current_period_end,
  s.canceled_at,
  s.provider_status,
  s.customer_id,
  s.quantity,
  s.cancel_at,
  s.trial_end,
  s.had_trial or s.trial_end is not null as had_trial,
  s.paused,
  s.paused_until,
  s.livemode,
  s.past_due_since,
  s.created_at,
  -- Without items, the plan stands for one.
  coalesce(
    nullif(s.items, '[]'),
    jsonb_build_array(jsonb_build_object('price_id', s.plan_id, 'quantity', s.quantity))
  ) as items,
  s.items_complete,
  case
    when s.status = 'canceled' or s.cancel_at <= now() then null
    when s.paused = 'void' and (s.paused_until <= now()) is not true then null
    when coalesce(s.provider_status, s.status) in ('active', 'trialing') then 'infinity'
    when coalesce(s.provider_status, s.status) = 'past_due' then nullif(
      least(coalesce(s.past_due_since, s.current_period_end, '-infinity'), now()),
      '-infinity'
    )
  end as paid_until
from billing.subscriptions s;

comment on view public.billing_subscriptions is
  'paid_until: infinity if paid; when it became past due (access ends a grace later); or null.';

create view public.billing_subscription_items
with (security_invoker = true)
as
select
  s.id as subscription_id,
  s.provider,
  s.account_id,
  i.item_id,
  i.price_id,
  i.product_id,
  i.quantity,
  i.usage_type,
  i.current_period_end
from public.billing_subscriptions s,
  jsonb_to_recordset(s.items) as i (
    item_id text,
    price_id text,
    product_id text,
    quantity integer,
    usage_type text,
    current_period_end timestamptz
  );

create view billing.subscription_items
with (security_invoker = true)
as
table public.billing_subscription_items;

comment on view billing.subscription_items is
  'One row per item of a subscription.';

create view public.billing_plan_features
with (security_invoker = true)
as
select plan_id, feature, amount, per_unit
from billing.plan_features;

create function public.billing_has_access(
  account_id text,
  grace interval default null
)
returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  given constant interval := greatest(coalesce(grace, public.billing_default_grace()), '0');
begin
  return exists (
    select
    from public.billing_subscriptions s
    where s.account_id = billing_has_access.account_id
      and now() < s.paid_until + given
  );
end;
$$;

-- Returns what an app shows of an account (docs/app.md). Of its subscriptions, it shows the one
-- that gives access longest; of equal ones a provider's before a grant; without access, the newest.
create function public.billing_account(
  account_id text,
  grace interval default null
)
returns jsonb
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan -- planning takes longer than running
set jit = off
set enable_seqscan = off -- plan_features may be small, and grow
as $$
declare
  given constant interval := greatest(coalesce(grace, public.billing_default_grace()), '0');
  shown record; -- nulls without a subscription
  features jsonb;
begin
  select
    a.access,
    case when a.access and isfinite(a.access_until) then a.access_until end as access_until,
    s.id as subscription_id,
    s.provider,
    s.plan_id,
    a.status,
    s.quantity,
    s.current_period_end,
    s.cancel_at,
    s.trial_end,
    s.past_due_since,
    a.status = 'paused' or s.paused is not null and (s.paused_until <= now()) is not true as paused,
    bool_or(s.had_trial) over () as had_trial,
    count(*) filter (where a.access) over () as subscriptions

  into shown
  from public.billing_subscriptions s,
    lateral (
      select
        coalesce(now() < s.paid_until + given, false) as access,
        least(s.cancel_at, s.paid_until + given) as access_until,
        case when s.status = 'canceled' then s.status else coalesce(s.provider_status, s.status) end
          as status
    ) as a
  where s.account_id = billing_account.account_id
  order by
    a.access desc,
    case when a.access then (
      a.access_until,
      s.provider <> 'manual',
      coalesce(s.current_period_end, '-infinity')
    ) end desc,
    s.created_at desc,
    s.id desc
  limit 1;

  -- What all subscriptions include, or else the plan "free".
  select coalesce(jsonb_object_agg(total.feature, total.amount), '{}')
  into features
  from (
    select
      f.feature,
      case
        when bool_and(f.amount is not null) then
          least(sum(f.amount::numeric * f.units), 9223372036854775807)
      end as amount
    from (
      select
        p.feature,
        p.amount,
        case when p.per_unit then coalesce(i.quantity, 1) else 1 end as units
      from public.billing_subscriptions s,
        jsonb_to_recordset(s.items) as i (price_id text, product_id text, quantity integer),
        lateral (
          select distinct on (p.feature) p.feature, p.amount, p.per_unit
          from public.billing_plan_features p
          where p.plan_id in (i.price_id, i.product_id)
          order by p.feature, p.plan_id = i.price_id desc
        ) as p
      where s.account_id = billing_account.account_id
        and now() < s.paid_until + given
        -- A quantity of 0 gives nothing, also if the feature is unlimited or not per unit.
        and (i.quantity <= 0) is not true
      union all
      select p.feature, p.amount, 1
      from public.billing_plan_features p
      where p.plan_id = 'free' and shown.access is not true
    ) as f
    group by f.feature
  ) as total;

  return to_jsonb(shown) || jsonb_build_object(
    'access', coalesce(shown.access, false),
    'features', features
  );
end;
$$;

create function public.billing_feature_amount(
  account_id text,
  feature text,
  grace interval default null
)
returns bigint
language plpgsql stable
set search_path = ''
as $$
declare
  features constant jsonb := public.billing_account(account_id, grace) -> 'features';
begin
  return case when features ? feature then features ->> feature else '0' end;
end;
$$;

comment on function public.billing_feature_amount is
  'How much of a feature an account has; null if unlimited.';

create function public.billing_has_feature(
  account_id text,
  feature text,
  grace interval default null,
  used bigint default 0
)
returns boolean
language plpgsql stable
set search_path = ''
as $$
begin
  return coalesce(
    public.billing_feature_amount(account_id, feature, grace) > greatest(used, 0),
    true
  );
end;
$$;

comment on function public.billing_has_feature is
  'Whether an account has more of a feature than it has used.';

-- Looks first, by an index alone, for the few accounts with two.
create function billing.find_double_subscribed()
returns table (account_id text, subscriptions bigint, since timestamptz)
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  given constant interval := greatest(public.billing_default_grace(), '0');
begin
  return query
  select a.account_id, paid.*
  from (
    select s.account_id
    from billing.subscriptions s
    group by s.account_id
    having count(*) > 1
  ) as a,
    lateral (
      select count(*), (array_agg(s.created_at order by s.created_at))[2]
      from public.billing_subscriptions s
      where s.account_id = a.account_id
        and s.provider <> 'manual'
        and now() < s.paid_until + given
      having count(*) > 1
    ) as paid;
end;
$$;

create view billing.double_subscribed
with (security_invoker = true)
as
select account_id, subscriptions, since
from billing.find_double_subscribed();

comment on view billing.double_subscribed is
  'Accounts that pay for more than one subscription.';


-- Grants ------------------------------------------------------------------------------------------

create table billing.grants (
  subscription_id text collate "C" primary key references billing.subscriptions on delete cascade,
  reason text not null,
  granted_by text not null,
  granted_at timestamptz not null default now(),
  ended_reason text,
  ended_by text,
  ended_at timestamptz
);

comment on table billing.grants is
  'Plans that were given to accounts: subscriptions of provider manual, which no event changes.';

create function billing.grant_plan(
  account_id text,
  plan_id text,
  until timestamptz default null,
  reason text default null,
  who text default current_user,
  quantity integer default 1
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  grant_id constant text := 'grant_' || gen_random_uuid();
begin
  if (account_id ~ '\S' and plan_id ~ '\S' and reason ~ '\S') is not true
    or until <= now()
    or quantity <= 0
  then
    raise exception
      'A grant needs an account, a plan, a reason, a future end or none, and a quantity above 0.';
  end if;

  insert into billing.subscriptions (id, provider, account_id, status, plan_id, cancel_at, quantity)
  values (
    grant_id, 'manual', account_id, 'active', plan_id, nullif(until, 'infinity'), quantity
  );
  insert into billing.grants (subscription_id, reason, granted_by)
  values (grant_id, reason, who);
  return grant_id;
end;
$$;

create function billing.end_grant(
  grant_id text,
  reason text,
  who text default current_user
)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  update billing.grants g
  set ended_reason = end_grant.reason, ended_by = who, ended_at = now()
  where g.subscription_id = grant_id and g.ended_at is null and end_grant.reason ~ '\S';
  if not found then
    raise exception
      'Nothing was ended: % is no grant, or has ended, or no reason is given.', grant_id;
  end if;

  update billing.subscriptions s
  set status = 'canceled', canceled_at = now()
  where s.id = grant_id;
  return format('%s has ended.', grant_id);
end;
$$;

create view public.billing_grants
with (security_invoker = true)
as
select
  subscription_id,
  reason,
  granted_by,
  granted_at,
  ended_reason,
  ended_by,
  ended_at
from billing.grants;
