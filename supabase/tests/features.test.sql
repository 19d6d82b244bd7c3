/*
 * public.billing_feature_amount and public.billing_has_feature as a truth table: every state of a
 * subscription, grace, quantity, and pair of rows for an item's price and product. What an item gives
 * is written out below. Then cases by name. What users may ask is in the test of docs/app.md.
 */
begin;
select plan(18);

-- What an item gives, by its row in billing.plan_features and its quantity.
create temporary table gives as
select r.word, q.quantity, q.amount
from (
  values
    -- quantity:          null         0            1            3
    ('no row', '0', '0', '0', '0'),
    ('zero', '0', '0', '0', '0'),
    ('zero once', '0', '0', '0', '0'),
    ('five', '5', '0', '5', '15'),
    ('five once', '5', '5', '5', '5'),
    ('unlimited', 'unlimited', 'unlimited', 'unlimited', 'unlimited'),
    ('unlimited once', 'unlimited', 'unlimited', 'unlimited', 'unlimited')
) as r (word, none, zero, one, three),
  lateral (values (null::integer, none), (0, zero), (1, one), (3, three)) as q (quantity, amount);
insert into billing.plan_features (plan_id, feature, amount, per_unit)
select distinct
  kind || word, feature, case when feature = 'storage' then 1000 when word like 'five%' then 5 when word like 'zero%' then 0 end, word not like '%once'
from gives, unnest(array['price ', 'product ']) as kind, unnest(array['seats', 'storage']) as feature
where word <> 'no row';

create temporary table states (state, counts, status, provider_status, paused, past_due_since) as
values
  ('paid', 'always', 'active', 'active', null, null::timestamptz), ('on trial', 'always', 'active', 'trialing', null, null),
  ('late for two days', 'with a grace', 'past_due', 'past_due', null, now() - interval '2 days'),
  ('late for long', 'never', 'past_due', 'past_due', null, now() - interval '90 days'), ('unpaid', 'never', 'unpaid', 'unpaid', null, null),
  ('voided', 'never', 'active', 'active', 'void', null), ('not yet paid', 'never', 'active', 'incomplete', null, null),
  ('deleted', 'never', 'canceled', 'active', null, null);
-- Without items, the plan is the price and there is no product.
create temporary table cases as
select 'case_' || row_number() over () as account, s.*, how, quantity, price, product
from states s, unnest(array[null, 0, 1, 3]) as quantity, unnest(array['items', 'empty list', 'no list']) as how,
  (select null as price union select word from gives) as price, (select null as product union select word from gives) as product
where how = 'items' or price is not null and product is null;

create temporary table expected as
select
  c.account, g.grace,
  case
    when c.counts = 'never' or c.counts = 'with a grace' and g.grace is distinct from '3 days' then '0'
    when c.price <> 'no row' then (select amount from gives where word = c.price and quantity is not distinct from c.quantity)
    when c.product <> 'no row' then (select amount from gives where word = c.product and quantity is not distinct from c.quantity)
    else '0'
  end as amount
from cases c, unnest(array[interval '0', '3 days', null]) as g (grace);

create function pg_temp.item(price text, product text, quantity integer)
returns jsonb language sql
return jsonb_build_object('price_id', 'price ' || price, 'product_id', 'product ' || product, 'quantity', quantity);
insert into billing.subscriptions (id, provider, account_id, status, provider_status, paused, past_due_since, plan_id, quantity, items)
select
  'sub_' || c.account, 'a', c.account, c.status, c.provider_status, c.paused, c.past_due_since,
  -- The plan of a list counts only as one of the list.
  case when c.how = 'items' then 'price unlimited' else 'price ' || c.price end, case when c.how <> 'items' then c.quantity end,
  case c.how when 'items' then jsonb_build_array(pg_temp.item(c.price, c.product, c.quantity)) when 'empty list' then '[]' end
from cases c;
analyze billing.subscriptions;

select is((select count(*)::integer from cases), 8 * 4 * (8 * 8 + 2 * 7), 'every case is there');
select set_eq(
  $$select amount from expected$$, array['0', '5', '15', 'unlimited'], 'the amounts that there can be'
);

create temporary view wrong as
select e.*, a.amount as answer
from expected e, lateral (
  select coalesce(public.billing_feature_amount(e.account, 'seats', e.grace)::text, 'unlimited') as amount,
    public.billing_has_feature(e.account, 'seats', e.grace) as has_feature
) as a
where a.amount <> e.amount or a.has_feature is distinct from (e.amount <> '0');
grant select on expected, wrong to service_role;
set local role service_role;
select is_empty('select * from wrong limit 5', 'service_role gets the amounts of the table, and has what is not 0');
select is_empty(
  $$select * from expected where grace = '0' and (
      coalesce(public.billing_feature_amount(account, 'seats')::text, 'unlimited') <> amount
      or public.billing_has_feature(account, 'seats') is distinct from (amount <> '0')
    )$$,
  'by default, there is no grace'
);
reset role;

-- By name.
create function pg_temp.amounts(features jsonb, items jsonb)
returns text language plpgsql as $$
begin
  delete from billing.plan_features where feature = 'calls';
  insert into billing.plan_features (plan_id, feature, amount)
  select f.key, 'calls', f.value::bigint from jsonb_each_text(features) as f;
  delete from billing.subscriptions where account_id = 'acc_1';
  insert into billing.subscriptions (id, provider, account_id, status, plan_id, items)
  values ('sub_1', 'a', 'acc_1', 'active', 'P', items), ('sub_2', 'b', 'acc_1', 'active', 'P', '[{"price_id": "Q"}]');
  return coalesce(public.billing_feature_amount('acc_1', 'calls')::text, 'unlimited') || ' ' || public.billing_has_feature('acc_1', 'calls');
end;
$$;
select is(pg_temp.amounts(a.features::jsonb, a.items::jsonb), a.amounts, a.why)
from (
  values
    ('7 true', '{"P": 7}', '[{"product_id": "P"}]', 'an item may have a product alone'),
    ('14 true', '{"P": 7}', '[{"price_id": "P", "product_id": "P"}, {"price_id": "P"}]', 'an item counts once, and each item'),
    ('10 true', '{"Q": 2}', '[{"price_id": "Q", "quantity": 3}, {"price_id": "Q", "quantity": null}]', 'subscriptions of both providers add up'),
    ('unlimited true', '{"P": null, "Q": 2}', '[{"price_id": "P"}]', 'unlimited and some are unlimited'),
    ('9223372036854775807 true', '{"P": 9223372036854775807}', '[{"price_id": "P", "quantity": 2147483647}]', 'a product ends at the largest bigint'),
    ('9223372036854775807 true', '{"P": 9223372036854775807, "Q": 9223372036854775807}', null, 'so does a sum')
) as a (amounts, features, items, why);
select is(
  (public.billing_feature_amount(a, f, '1 year'), public.billing_has_feature(a, f, '1 year'))::text, '(0,f)', format('nothing for account %L, feature %L', a, f)
)
from (values (null, 'calls'), ('', 'calls'), ('acc_nobody', 'calls'), ('acc_1', null), ('acc_1', ''), ('acc_1', 'Calls'), ('acc_1', 'P')) as n (a, f);

set local role anon;
select throws_ok($$select public.billing_has_feature('acc_1', 'calls')$$, '42501', 'permission denied for function billing_has_feature', 'anon may not');
reset role;
select * from finish();
rollback;
