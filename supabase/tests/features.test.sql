/*
 * public.billing_feature_amount and public.billing_has_feature case by case. What users may ask
 * is in the test of docs/app.md.
 */
begin;
select plan(40);

insert into billing.plan_features (plan_id, feature, amount, per_unit)
values
  ('P', 'seats', 5, true),
  ('once', 'seats', 5, false),
  ('none', 'seats', 0, true),
  ('any', 'seats', null, true),
  ('any once', 'seats', null, false),
  ('Q', 'seats', 2, true),
  ('max', 'seats', 9223372036854775807, true),
  ('prod', 'seats', 70, true),
  ('none', 'storage', 1000, true);

-- Returns the amount, 'unlimited' if there is no limit, and whether the account has any.
create function pg_temp.amounts(items jsonb, fields jsonb, grace interval)
returns text language plpgsql as $$
begin
  delete from billing.subscriptions;
  insert into billing.subscriptions
  select s.*
  from jsonb_populate_record(null::billing.subscriptions, '{
    "id": "sub_1", "provider": "a", "account_id": "acc_1", "status": "active", "plan_id": "P"
  }' || jsonb_build_object('items', items) || fields) as s;
  insert into billing.subscriptions (id, provider, account_id, status, plan_id, items)
  values
    ('sub_2', 'b', 'acc_1', 'active', 'P', '[{"price_id": "Q"}]'),
    ('sub_3', 'b', 'acc_2', 'active', 'P', '[{"price_id": "any"}]');

  return concat_ws(
    ' ',
    coalesce(public.billing_feature_amount('acc_1', 'seats', grace)::text, 'unlimited'),
    public.billing_has_feature('acc_1', 'seats', grace)::text
  );
end;
$$;

-- The second subscription gives 2.
select is(
  pg_temp.amounts(a.items::jsonb, coalesce(a.fields, '{}')::jsonb, a.grace::interval),
  a.amounts,
  a.why
)
from (
  values
    ('7 true', '[{"price_id": "P"}]', null, '0', 'subscriptions of both providers add up; no quantity counts as one'),
    ('17 true', '[{"price_id": "P", "quantity": 3}]', null, '0', 'an amount counts once per unit'),
    ('2 true', '[{"price_id": "P", "quantity": 0}]', null, '0', 'a quantity of 0 gives nothing'),
    ('7 true', '[{"price_id": "once", "quantity": 3}]', null, '0', 'without per_unit, an amount counts once'),
    ('2 true', '[{"price_id": "once", "quantity": 0}]', null, '0', 'without per_unit, a quantity of 0 gives nothing'),
    ('2 true', '[{"price_id": "none", "quantity": 3}]', null, '0', 'an amount may be 0'),
    ('unlimited true', '[{"price_id": "any", "quantity": 3}]', null, '0',
      'an amount may be unlimited, whatever the quantity'),
    ('2 true', '[{"price_id": "any", "quantity": 0}]', null, '0',
      'an unlimited amount with a quantity of 0 gives nothing'),
    ('2 true', '[{"price_id": "any once", "quantity": 0}]', null, '0',
      'an unlimited amount without per_unit and a quantity of 0 gives nothing'),
    ('7 true', '[{"price_id": "any", "quantity": 0}, {"price_id": "P"}]', null, '0',
      'an item with a quantity of 0 gives nothing beside another'),
    ('2 true', null, '{"plan_id": "any", "quantity": 0}', '0', 'a plan with a quantity of 0 gives nothing'),
    ('unlimited true', null, '{"plan_id": "any"}', '0', 'a plan without a quantity counts as one'),
    ('unlimited true', '[{"price_id": "any once"}, {"price_id": "P"}]', null, '0',
      'unlimited and a number are unlimited'),
    ('2 true', '[{"price_id": "other"}]', null, '0', 'an item without a row gives nothing'),
    ('72 true', '[{"price_id": "other", "product_id": "prod"}]', null, '0',
      'a product counts, if its price has no row'),
    ('72 true', '[{"product_id": "prod"}]', null, '0', 'a product counts, if there is no price'),
    ('7 true', '[{"price_id": "P", "product_id": "prod"}]', null, '0', 'if both have a row, the price counts'),
    ('2 true', '[{"price_id": "none", "product_id": "any"}]', null, '0',
      'if both have a row, the price counts even if it is 0'),
    ('12 true', '[{"price_id": "P", "product_id": "P"}, {"price_id": "P"}]', null, '0', 'each item counts once'),
    ('22 true', null, '{"quantity": 4}', '0', 'without items, the plan stands for one, with its quantity'),
    ('22 true', '[]', '{"quantity": 4}', '0', 'with an empty list, the plan stands for one'),
    ('2 true', '[{"price_id": "other"}]', '{"plan_id": "any"}', '0',
      'the plan of a list counts only as one of the list'),
    ('9223372036854775807 true', '[{"price_id": "max", "quantity": 2147483647}]', null, '0',
      'a product ends at the largest bigint'),
    ('9223372036854775807 true', '[{"price_id": "max"}]', null, '0', 'a sum ends at the largest bigint'),
    ('2 true', '[{"price_id": "any"}]', '{"paused": "void"}', '1 year',
      'a subscription whose invoices are voided does not count'),
    ('2 true', '[{"price_id": "P"}]', '{"provider_status": "past_due", "past_due_since": "2026-01-01Z"}', '0',
      'a past_due subscription does not count'),
    ('2 true', '[{"price_id": "P"}]', '{"provider_status": "past_due", "past_due_since": "2026-01-01Z"}', null,
      'a grace of null is none'),
    ('7 true', '[{"price_id": "P"}]', '{"provider_status": "past_due", "past_due_since": "2026-01-01Z"}', '1000 years',
      'a past_due subscription counts within a grace')
) as a (amounts, items, fields, grace, why);
select is(
  public.billing_feature_amount('acc_1', 'seats'),
  public.billing_feature_amount('acc_1', 'seats', '0'),
  'by default, there is no grace'
)
from (
  select pg_temp.amounts(
    null,
    '{"provider_status": "past_due", "past_due_since": "2026-01-01Z"}',
    '0'
  )
) as late;

select pg_temp.amounts('[{"price_id": "any", "quantity": 0}]', '{"account_id": "acc_3"}', '0');
select is(
  (
    public.billing_feature_amount('acc_3', 'seats'),
    public.billing_has_feature('acc_3', 'seats')
  )::text,
  '(0,f)',
  'an account whose only item has the quantity 0 has nothing'
);

select pg_temp.amounts('[{"price_id": "none"}]', '{"account_id": "acc_3"}', '0');
select is(
  (public.billing_feature_amount(a, f, '1 year'), public.billing_has_feature(a, f, '1 year'))::text,
  '(0,f)',
  format('nothing for account %L, feature %L', a, f)
)
from (
  values
    (null, 'seats'),
    ('', 'seats'),
    ('acc_nobody', 'seats'),
    ('acc_3', 'seats'),
    ('acc_1', null),
    ('acc_1', ''),
    ('acc_1', 'Seats'),
    ('acc_1', 'P'),
    ('acc_1', 'storage')
) as n (a, f);

set local role service_role;
select ok(
  public.billing_has_feature('acc_3', 'storage')
    and not public.billing_has_feature('acc_3', 'seats'),
  'service_role may ask'
);

select * from finish();
rollback;
