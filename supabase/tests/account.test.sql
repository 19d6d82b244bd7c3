/*
 * What an app asks about an account: a table of all that decides, for every role; cases of one rule
 * each; and grants.
 */
begin;
select plan(60);

select pg_temp.let_users_read();

select is(public.billing_default_grace(), interval '0', 'there is no grace by default');
create or replace function public.billing_default_grace()
returns interval language sql stable
return nullif(current_setting('test.default_grace'), 'null')::interval;

-- Inserts an active subscription of acc_1, with these fields; times are intervals from now.
create function pg_temp.put(fields jsonb)
returns void language sql as $$
  insert into billing.subscriptions
  select s.*
  from jsonb_populate_record(null::billing.subscriptions, '{
    "id": "sub_1", "provider": "a", "account_id": "acc_1", "plan_id": "P", "status": "active",
    "had_trial": false
  }' || fields || (
    select jsonb_object_agg(name, now() + value::interval)
    from jsonb_each_text('{"created_at": "0", "current_period_end": "20 days"}' || fields)
      as f (name, value)
    where name ~ '_(at|end|since|until)$'
  )) as s
$$;


-- All that decides -------------------------------------------------------------------------------

insert into billing.plan_features (plan_id, feature, amount, per_unit)
values
  ('pro', 'seats', 5, true),
  ('pro', 'rooms', 3, false),
  ('pro', 'storage', null, true),
  ('gift', 'seats', 2, true),
  ('free', 'seats', 1, true),
  ('free', 'help', null, true);

-- In hours: the grace that a subscription needs, when it ends, and until when a grant counts. 9 is
-- for ever; a grant without an end has been ended.
create temporary table accounts as
select 'acc_' || row_number() over () as id, 'acc_' || row_number() over () as account_id, *
from
  (
    values
      ('active', 'active', null, -1),
      ('past_due', 'past_due', '-71 h', 71),
      ('past_due', 'past_due', '-73 h', 73),
      ('active', 'incomplete', null, 99),
      ('paused', 'paused', null, 99),
      ('canceled', 'active', null, 99)
  ) as s (status, provider_status, past_due_since, needs),
  (values (null, null, true), ('void', null, false), ('void', '1 h', false), ('void', '-1 h', true))
    as p (paused, paused_until, goes_on),
  (values (null, 9), ('2 h', 2), ('-1 h', -1)) as c (cancel_at, ends),
  (values (null, 1), (0, 0), (2, 2)) as q (quantity, units),
  (values (false, null), (true, null), (true, 3), (true, 9)) as g (is_granted, granted);
grant select on accounts to service_role, authenticated;

select count(pg_temp.put(to_jsonb(a) || '{"plan_id": "pro", "created_at": "-1 day"}'))
from accounts a;
select count(case when granted is null then billing.end_grant(g.id, 'a test') end)
from accounts,
  billing.grant_plan(account_id, 'gift', now() + nullif(granted, 9) * interval '1 h', 'a test')
    as g (id)
where is_granted;

create function pg_temp.answers(account_id text, given interval, default_grace text, used integer)
returns jsonb language plpgsql as $$
declare
  account jsonb;
begin
  perform
    set_config('test.default_grace', default_grace, true),
    set_config('request.jwt.claims', jsonb_build_object('account', account_id)::text, true);
  account := public.billing_account(account_id, given);
  return jsonb_build_object(
    'access', public.billing_has_access(account_id, given),
    'account_access', account -> 'access',
    'until', extract(epoch from (account ->> 'access_until')::timestamptz - now())::integer / 3600,
    'provider', account -> 'provider',
    'subscriptions', account -> 'subscriptions',
    'features', account -> 'features',
    'has_seats', public.billing_has_feature(account_id, 'seats', given, used)
  );
end;
$$;

create function pg_temp.expected(a accounts, grace integer, used integer)
returns jsonb language plpgsql as $$
declare
  paid constant integer := case
    when a.needs < grace and a.goes_on and a.ends > 0
      then least(a.ends, case when a.needs > 0 then grace - a.needs end)
  end;
  access constant boolean := num_nonnulls(paid, a.granted) > 0;
  units constant integer := case when paid is null then 0 else a.units end;
  gifts constant integer := case when a.granted is null then 0 else 1 end;
  seats constant integer := case when access then 5 * units + 2 * gifts else 1 end;
begin
  return jsonb_build_object(
    'access', access,
    'account_access', access,
    'until', nullif(greatest(paid, a.granted), 9),
    'provider', case
      -- Without access, the grant is the newer one.
      when not access and a.is_granted or coalesce(paid, 0) < a.granted then 'manual'
      else 'a'
    end,
    'subscriptions', num_nonnulls(paid, a.granted),
    'has_seats', seats > used,
    'features', case
      when not access then jsonb_build_object('seats', seats, 'help', null)
      when units > 0 then jsonb_build_object('seats', seats, 'rooms', 3, 'storage', null)
      when gifts > 0 then jsonb_build_object('seats', seats)
      else '{}'
    end
  );
end;
$$;

create function pg_temp.wrong()
returns setof text language sql as $$
  select concat_ws(' ', a, g, used, answers, 'and not', expected)
  from accounts a
  cross join (
    values (null, '0', 0), (null, '72 h', 72), ('72 h', '0', 72), ('0', '72 h', 0)
  ) as g (given, default_grace, grace)
  cross join lateral (select (array[0, 1, 6, 11])[1 + (hashtext(id || grace) & 3)]) as u (used)
  cross join lateral pg_temp.answers(id, given::interval, default_grace, used) as answers
  cross join lateral pg_temp.expected(a, grace, used) as expected
  where answers <> expected
$$;

select is(count(*), 864::bigint, 'the table has all rows') from accounts;
set local role service_role;
select is_empty('select * from pg_temp.wrong()', 'all answers agree, for service_role');
set local role authenticated;
select is_empty('select * from pg_temp.wrong()', 'all answers agree, for users under a policy');

select set_config('request.jwt.claims', '{"account": "acc_nobody"}', true);
select results_eq(
  $$
    select distinct public.billing_account(id) || jsonb_build_object(
      'seats', public.billing_feature_amount(id, 'seats'),
      'has_access', public.billing_has_access(id)
    )
    from accounts
  $$,
  $$
    values ('{
      "access": false, "access_until": null, "subscription_id": null, "provider": null,
      "plan_id": null, "status": null, "quantity": null, "current_period_end": null,
      "cancel_at": null, "trial_end": null, "past_due_since": null, "paused": null,
      "features": {"help": null, "seats": 1}, "had_trial": null, "subscriptions": null,
      "seats": 1, "has_access": false
    }'::jsonb)
  $$,
  'of another account, a user learns what is said of one that nobody knows'
);
reset role;


-- One rule each ----------------------------------------------------------------------------------

truncate billing.subscriptions, billing.plan_features, billing.grants;
select set_config('test.default_grace', 'null', true);

create function pg_temp.shown(grace interval, variadic subscriptions text[])
returns text language plpgsql as $$
declare
  account jsonb;
begin
  delete from billing.subscriptions;
  for i in 1 .. cardinality(subscriptions) loop
    perform pg_temp.put(jsonb_build_object('id', i::text) || subscriptions[i]::jsonb);
  end loop;
  account := public.billing_account('acc_1', grace);
  assert account -> 'access' = to_jsonb(public.billing_has_access('acc_1', grace));
  return concat_ws(
    ' ',
    account ->> 'subscription_id',
    account ->> 'status',
    'of',
    account ->> 'subscriptions',
    'for ' || round(extract(epoch from (account ->> 'access_until')::timestamptz - now()) / 3600),
    case when (account ->> 'paused')::boolean then 'paused' end,
    case when (account ->> 'had_trial')::boolean then 'tried' end
  );
end;
$$;

select is(pg_temp.shown(c.grace, variadic c.subscriptions), c.shown, c.why)
from (
  values
    ('1 trialing of 1', interval '0', array['{"provider_status": "trialing"}'], 'a trial has access'),
    ('1 on_hold of 0', '1 year', array['{"status": "on_hold"}'], 'an unknown status has no access'),
    ('1 active of 1', '0', array['{"current_period_end": "-1 hour"}'],
      'a renewal whose event is late has access'),
    ('1 active of 0', '1 year', array['{"cancel_at": "0"}'], 'there is no access from cancel_at on'),
    ('1 active of 1', '0', array['{"paused": "void", "paused_until": "0"}'],
      'a pause ends at paused_until'),
    ('1 active of 1 paused', '0', array['{"paused": "keep_as_draft"}'],
      'there is access while invoices are kept as drafts'),
    ('1 paused of 0 paused', '0', array['{"status": "paused"}'], 'a status may be a pause'),

    -- A grace.
    ('1 past_due of 0', '0', array['{"status": "past_due", "past_due_since": "5 minutes"}'],
      'past_due has no access if the provider''s clock is ahead'),
    ('1 past_due of 0', '72 hours', array['{"status": "past_due", "past_due_since": "-72 hours"}'],
      'a grace ends'),
    ('1 active of 1', null, array['{}'], 'a default grace of null takes nothing away'),
    ('1 past_due of 1 for 1', '72 hours',
      array['{"status": "past_due", "current_period_end": "-71 hours"}'],
      'without past_due_since, a grace begins with the end of the period'),
    ('1 past_due of 1 for 1', '1 hour', array['{"status": "past_due", "current_period_end": "1 hour"}'],
      'without past_due_since, a grace does not begin before now'),
    ('1 past_due of 0', '1 year', array['{"status": "past_due", "current_period_end": null}'],
      'without past_due_since and a period, there is no grace'),

    -- Which is shown.
    ('2 active of 2 for 90', '0', array['{"cancel_at": "9 hours"}', '{"cancel_at": "90 hours"}'],
      'one that ends later is shown before one that ends sooner'),
    ('2 active of 1 for 9', '0',
      array['{"status": "unpaid", "created_at": "1 hour"}', '{"cancel_at": "9 hours"}'],
      'one with access is shown before one without'),
    ('2 active of 2', '0',
      array['{"provider": "manual"}', '{"created_at": "-9 hours", "current_period_end": null}'],
      'a provider''s is shown before a grant'),
    ('1 active of 3', '0', array[
      '{"created_at": "-9 hours"}', '{"current_period_end": "19 days"}', '{"current_period_end": null}'
    ], 'of equal ones, the one with the later period is shown'),
    ('2 active of 3', '0', array['{}', '{"created_at": "1 second"}', '{"created_at": "-1 second"}'],
      'of equal ones with equal periods, the newer is shown'),
    ('2 canceled of 0', '0', array[
      '{"status": "unpaid"}',
      '{"status": "canceled", "provider_status": "active", "cancel_at": "-1 hour", "created_at": "1 hour"}',
      '{"status": "past_due", "current_period_end": "90 days"}'
    ], 'without access, the newest is shown'),
    ('2 unpaid of 0', '0', array['{"status": "unpaid"}', '{"status": "unpaid"}'],
      'of several that came at once, the last ID is shown'),
    ('2 active of 1 tried', '0', array['{"status": "canceled", "trial_end": "-1 year"}', '{}'],
      'another subscription had a trial'),
    ('2 active of 1 tried', '0', array['{"status": "canceled", "had_trial": true}', '{}'],
      'a trial is known when it is not reported any more')
) as c (shown, grace, subscriptions, why);

select matches(
  -- Postgres 15 does not have the interval infinity.
  pg_temp.shown(
    case when current_setting('server_version') ~ '^15' then '9999 years' else 'infinity' end::interval,
    '{"status": "past_due", "past_due_since": "-9 years"}'
  ),
  '^1 past_due of 1',
  'a grace may have no end'
);

-- What plans include.
insert into billing.plan_features (plan_id, feature, amount)
values
  ('A', 'seats', 70),
  ('any', 'seats', null),
  ('none', 'seats', 0),
  ('P', 'seats', 5),
  ('Q', 'seats', 2),
  ('max', 'seats', 9223372036854775807);

-- Returns how many seats an account has that has 2 by another subscription.
create function pg_temp.seats(items jsonb, fields jsonb)
returns text language plpgsql as $$
declare
  seats bigint;
begin
  delete from billing.subscriptions;
  perform
    pg_temp.put(jsonb_build_object('items', items) || fields),
    pg_temp.put('{"id": "sub_2", "provider": "b", "items": [{"price_id": "Q"}]}'),
    pg_temp.put('{"id": "sub_3", "account_id": "acc_2", "items": [{"price_id": "any"}]}');

  seats := public.billing_feature_amount('acc_1', 'seats');
  assert public.billing_account('acc_1') -> 'features' = jsonb_build_object('seats', seats);
  assert public.billing_has_feature('acc_1', 'seats', used => seats - 1);
  assert public.billing_has_feature('acc_1', 'seats', used => seats) = (seats is null);
  return coalesce(seats::text, 'unlimited');
end;
$$;

select is(pg_temp.seats(c.items::jsonb, coalesce(c.fields, '{}')::jsonb), c.seats, c.why)
from (
  values
    ('2', '[{"price_id": "none", "quantity": 3}]', null, 'an amount may be 0'),
    ('7', '[{"price_id": "any", "quantity": 0}, {"price_id": "P"}]', null,
      'an item with a quantity of 0 gives nothing beside another'),
    ('unlimited', '[{"price_id": "any"}, {"price_id": "P"}]', null, 'unlimited and a number are unlimited'),
    ('2', '[{"price_id": "other"}]', null, 'an item without a row gives nothing'),
    ('72', '[{"price_id": "other", "product_id": "A"}]', null, 'a product counts, if its price has no row'),
    ('72', '[{"product_id": "A"}]', null, 'a product counts, if there is no price'),
    ('2', '[{"price_id": "none", "product_id": "any"}]', null,
      'if both have a row, the price counts, even if it is 0'),
    ('12', '[{"price_id": "P", "product_id": "P"}, {"price_id": "P"}]', null, 'each item counts once'),
    ('22', '[]', '{"quantity": 4}', 'with an empty list, the plan stands for one, with its quantity'),
    ('2', '[{"price_id": "other"}]', '{"plan_id": "any"}', 'the plan of a list counts only as one of the list'),
    ('9223372036854775807', '[{"price_id": "max", "quantity": 2147483647}]', null,
      'an amount ends at the largest bigint')
) as c (seats, items, fields, why);

select is(
  (public.billing_feature_amount(a, f), public.billing_has_feature(a, f, used => u))::text,
  '(0,f)',
  format('nothing for account %L, feature %L', a, f)
)
from (
  values
    (null, 'seats', 0),
    ('acc_nobody', 'seats', null),
    ('acc_1', null, 0),
    ('acc_1', 'Seats', -1)
) as n (a, f, u);


-- Grants -----------------------------------------------------------------------------------------

delete from billing.subscriptions;
set local role service_role;
select throws_ok(
  format('select public.billing_grant_plan(%s)', c.arguments),
  'P0001',
  'A grant needs an account, a plan, a reason, a future end or none, and a quantity above 0.',
  format('a grant with %s is refused', c.arguments)
)
from unnest(array[
  'null, ''Q'', reason => ''a test''',
  ''' '', ''Q'', reason => ''a test''',
  '''acc_1'', '' '', reason => ''a test''',
  '''acc_1'', ''Q''',
  '''acc_1'', ''Q'', reason => '' ''',
  '''acc_1'', ''Q'', now(), ''a test''',
  '''acc_1'', ''Q'', null, ''a test'', quantity => 0'
]) as c (arguments);

create temporary table granted as
select
  public.billing_grant_plan('acc_1', 'Q', now() + interval '1 hour', 'a gift', quantity => 3) as id,
  public.billing_grant_plan('acc_1', 'unknown', 'infinity', 'a friend', 'Kim') as friends;
select set_eq(
  $$
    select
      s.id ~ '^grant_[0-9a-f-]{36}$', s.provider, s.status, s.plan_id, s.quantity, s.cancel_at,
      g.reason, g.granted_by, g.granted_at
    from public.billing_grants g
    join public.billing_subscriptions s on s.id = g.subscription_id
  $$,
  $$
    values
      (true, 'manual', 'active', 'Q', 3, now() + interval '1 hour', 'a gift', 'service_role', now()),
      (true, 'manual', 'active', 'unknown', 1, null, 'a friend', 'Kim', now())
  $$,
  'a grant is a subscription with a reason; its plan may be unknown, and infinity is no end'
);
select is(public.billing_feature_amount('acc_1', 'seats'), 6::bigint, 'a grant includes what its plan does');

select throws_ok(
  format('select public.billing_end_grant(%L, %L)', c.id, c.reason),
  'P0001',
  format('Nothing was ended: %s is no grant, or has ended, or no reason is given.', c.id),
  c.why
)
from granted,
  lateral (
    values
      (granted.id, null, 'no grant ends without a reason'),
      (granted.id, ' ', 'no grant ends with an empty reason'),
      ('sub_1', 'a test', 'only a grant can be ended')
  ) as c (id, reason, why);

select is(
  (select public.billing_end_grant(friends, 'a quarrel', 'Lee') from granted),
  (select friends || ' has ended.' from granted),
  'service_role may end a grant'
);
select is(
  (
    select (s.status, s.canceled_at, g.ended_reason, g.ended_by, g.ended_at)::text
    from public.billing_grants g
    join public.billing_subscriptions s on s.id = g.subscription_id
    where g.ended_at is not null
  ),
  ('canceled'::text, now(), 'a quarrel'::text, 'Lee'::text, now())::text,
  'a grant that was ended is canceled, and says why'
);
select throws_like(
  (select format('select public.billing_end_grant(%L, ''again'')', friends) from granted),
  'Nothing was ended%',
  'a grant ends once'
);
reset role;

delete from billing.subscriptions;
select
  pg_temp.put('{"id": "1", "created_at": "-3 days"}'),
  pg_temp.put('{"id": "2", "created_at": "-1 day", "status": "past_due", "past_due_since": "-1 hour"}'),
  pg_temp.put('{"id": "3", "created_at": "-2 days", "provider": "b"}'),
  pg_temp.put('{"id": "4", "status": "canceled"}'),
  pg_temp.put('{"id": "5", "provider": "manual"}'),
  pg_temp.put('{"id": "6", "account_id": "acc_2"}'),
  pg_temp.put('{"id": "7", "account_id": "acc_2", "status": "unpaid"}'),
  pg_temp.put('{"id": "8", "account_id": "acc_2", "provider": "manual"}');
select set_eq(
  'select * from billing.double_subscribed',
  $$values ('acc_1', 2::bigint, now() - interval '2 days')$$,
  'an account is listed if it pays for two subscriptions, since it does'
);
select set_config('test.default_grace', '72 h', true);
select results_eq(
  'select d.subscriptions, h.double_subscribed from billing.double_subscribed d, billing.health h',
  $$values (3::bigint, 1::bigint)$$,
  'a subscription in the default grace counts'
);

select * from finish();
rollback;
