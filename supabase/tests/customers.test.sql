/*
 * A creation that names no account: billing.account_of_customer is asked, as it ships and as
 * a project replaces it. And billing.account_email as it ships.
 */
begin;
select plan(44);

create function pg_temp.created(
  id text,
  second integer,
  customer text,
  account text default null,
  provider text default 'a'
)
returns jsonb language sql
return pg_temp.event('tap_' || gen_random_uuid(), 'creation', id, second, jsonb_build_object(
  'provider', provider,
  'account_id', account,
  'report', jsonb_build_object(
    'plan_id', 'plan_' || second,
    'provider_status', 'active',
    'customer_id', customer
  )
));

create function pg_temp.early(id text, customer text, kind text default 'update')
returns jsonb language sql
return pg_temp.created(id, 40, customer)
  || jsonb_build_object('kind', kind, 'report', jsonb_build_object('customer_id', customer));

create function pg_temp.state(id text)
returns text language sql as $$
  select concat_ws(
    ' ',
    s.account_id,
    s.plan_id,
    extract(epoch from billing.time_of(s.account_mark))::bigint - 1800000000
  )
  from billing.subscriptions s
  where s.id = state.id
$$;

set local role service_role;

-- As it ships: the account of the customer's other subscriptions.
select is(
  pg_temp.apply(pg_temp.created('tap_1', 10, 'cus_1'), pg_temp.created('tap_1', 10, null)),
  'failed BW005, failed BW005',
  'without an account, a creation fails if the customer is new or not named'
);
select is_empty(
  $$
    select id
    from billing.subscriptions
    where id like 'tap\_%'
    union all
    select event_id
    from billing.processed_events
    where event_id like 'tap\_%'
  $$,
  'a creation that fails leaves no record and no claim'
);

select pg_temp.apply(
  pg_temp.created('tap_known', 10, 'cus_1', 'acc_1'),
  pg_temp.created('tap_bystander', 10, 'cus_2', 'acc_2')
);

select is(
  pg_temp.apply(pg_temp.created('tap_1', 20, 'cus_1')) || ': ' || pg_temp.state('tap_1'),
  'applied: acc_1 plan_20',
  'a creation gets the account of its customer''s other subscription, which no event dates'
);

select is(
  pg_temp.apply(pg_temp.created('tap_of_b', 20, 'cus_1', null, 'b')),
  'failed BW005',
  'a customer of the other provider is another customer'
);

update billing.subscriptions set status = 'canceled' where customer_id = 'cus_1';
select is(
  pg_temp.apply(pg_temp.created('tap_2', 20, 'cus_1'), pg_temp.created('tap_3', 20, 'cus_1')),
  'applied, applied',
  'a customer has its account from ended subscriptions too, for any number of new ones'
);
select results_eq(
  $$
    select billing.account_of_customer('a', c)
    from unnest(array['cus_1', 'cus_2', 'cus_3', null]) with ordinality as u (c, place)
    order by place
  $$,
  $$values ('acc_1'), ('acc_2'), (null), (null)$$,
  'each customer has its own account, and an unknown customer has none'
);

select is(
  pg_temp.apply(
    pg_temp.created('tap_mine', 10, 'cus_shared', 'acc_1'),
    pg_temp.created('tap_yours', 10, 'cus_shared', 'acc_2')
  )
    || '; '
    || pg_temp.apply(pg_temp.created('tap_whose', 20, 'cus_shared')),
  'applied, applied; failed BW005',
  'two accounts may share a customer, who then has none'
);

-- In one array.
select is(
  pg_temp.apply(
    pg_temp.created('tap_a', 20, 'cus_new'),
    pg_temp.created('tap_b', 20, 'cus_new', 'acc_new'),
    pg_temp.created('tap_c', 20, 'cus_new'),
    pg_temp.created('tap_a1', 20, 'cus_new') || '{"kind": "opening_update"}',
    pg_temp.created('tap_a2', 20, 'cus_new') || '{"kind": "deletion"}'
  )
    || ': '
    || pg_temp.state('tap_a')
    || ', '
    || pg_temp.state('tap_c'),
  'applied, applied, applied, applied, applied: acc_new plan_20, acc_new plan_20',
  'events without an account get that of another event of the array, in any order of ids'
);

select is(
  pg_temp.apply(
    pg_temp.created('tap_d', 30, 'cus_none'),
    pg_temp.early('tap_d', 'cus_none'),
    pg_temp.early('tap_none', 'cus_none'),
    pg_temp.created('tap_d', 35, 'cus_none', 'acc_d') || '{"kind": "payment_failed", "payment": {}}'
  ),
  'failed BW005, failed BW001, failed BW001, failed BW001',
  'what follows a creation without a known account fails too'
);

select is(
  pg_temp.apply(
    pg_temp.created('tap_e', 30, 'cus_new'),
    pg_temp.early('tap_e', 'cus_new'),
    pg_temp.early('tap_e', 'cus_new', 'deletion'),
    pg_temp.early('tap_f', 'cus_f'),
    pg_temp.created('tap_f', 20, 'cus_f'),
    pg_temp.created('tap_f_first', 30, 'cus_f', 'acc_f')
  ),
  'applied, applied, applied, applied, applied, applied',
  'what belongs to a creation with an account is applied, also before it in the array'
);

-- A record that exists.
select is(
  pg_temp.apply(pg_temp.created('tap_known', 30, 'cus_2')) || ': ' || pg_temp.state('tap_known'),
  'applied: acc_1 plan_30 10',
  'a newer creation without an account leaves that of the record, whatever customer it names'
);

select is(
  pg_temp.apply(pg_temp.created('tap_2', 15, 'cus_1', 'acc_own')) || ': ' || pg_temp.state('tap_2'),
  'applied: acc_own plan_20 15',
  'an older creation with an account brings only the account, and wins over the customer''s'
);

-- A fallback account, which the provider keeps with the customer, counts last and moves no record.
create function pg_temp.fell_back(
  id text,
  second integer,
  customer text,
  account text default null,
  kind text default 'opening_update'
)
returns jsonb language sql
return pg_temp.created(id, second, customer, account)
  || jsonb_build_object('kind', kind, 'fallback_account', 'acc_kept');

select pg_temp.apply(
  pg_temp.fell_back('tap_kept', 30, null),
  pg_temp.fell_back('tap_kept_shared', 30, 'cus_shared', null, 'creation'),
  pg_temp.fell_back('tap_kept_known', 30, 'cus_new'),
  pg_temp.fell_back('tap_kept_named', 30, 'cus_named', 'acc_named'),
  pg_temp.fell_back('tap_kept_deleted', 30, 'cus_deleted', null, 'deletion'),
  pg_temp.fell_back('tap_known', 40, 'cus_named')
);
select set_eq(
  $$
    select concat_ws(' ', id, pg_temp.state(id), status)
    from billing.subscriptions
    where id ~ '^tap_(kept|known)'
  $$,
  array[
    'tap_kept acc_kept plan_30 active',
    'tap_kept_shared acc_kept plan_30 active',
    'tap_kept_known acc_new plan_30 active',
    'tap_kept_named acc_named plan_30 30 active',
    'tap_kept_deleted acc_kept plan_30 canceled',
    'tap_known acc_1 plan_40 10 active'
  ],
  'the fallback account counts if neither event, customer nor record has one'
);

select is(
  pg_temp.apply(pg_temp.fell_back(
    'tap_kept',
    20,
    null,
    'acc_own'
  )) || ': ' || pg_temp.state('tap_kept'),
  'applied: acc_own plan_30 20',
  'an older event that names an account moves a record from its fallback account'
);

-- Events that arrive before the creation.
select is(
  pg_temp.apply(
    pg_temp.early('tap_later', 'cus_new'),
    pg_temp.early('tap_later', 'cus_new', 'payment_failed'),
    pg_temp.early('tap_later', 'cus_new', 'deletion'),
    pg_temp.early('tap_later', 'cus_shared'),
    pg_temp.early('tap_later', 'cus_nobody'),
    pg_temp.early('tap_later', null),
    pg_temp.early('tap_later', 'cus_new', 'refund')
  ),
  'failed BW006, failed BW006, failed BW006, failed BW001, failed BW001, failed BW001, failed BW003',
  'an event without a record is early if its customer is known, and unknown otherwise'
);
select is(
  (
    select a.error
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.early('tap_later', 'cus_new') || '{"place": 1}'
    )) as a
  ),
  'No subscription tap_later is recorded.',
  'an early event has the message of an unknown one'
);

reset role;
create temporary sequence asked;
grant all on asked to service_role;
alter function billing.account_of_customer rename to as_it_ships;

create function billing.account_of_customer(provider text, customer_id text)
returns text language plpgsql as $$
begin
  perform nextval('asked');
  return billing.as_it_ships(provider, customer_id);
end;
$$;

set local role service_role;
select pg_temp.apply(
  pg_temp.early('tap_e', 'cus_new'),
  pg_temp.early('tap_later', 'cus_new'),
  pg_temp.early('tap_e', 'cus_new') || '{"event_id": "tap_asked"}',
  pg_temp.early('tap_e', 'cus_new') || '{"event_id": "tap_asked"}'
);
select is(
  (select last_value from asked where is_called),
  1::bigint,
  'account_of_customer is not called for applied events and duplicates'
);

reset role;
drop function billing.account_of_customer;
alter function billing.as_it_ships rename to account_of_customer;
set local role service_role;

-- billing.customers: by the app, or by a checkout.
create function pg_temp.checkout(
  customer text,
  account text,
  event text default gen_random_uuid()::text
)
returns jsonb language sql
return pg_temp.event('tap_' || event, 'checkout', null, null, jsonb_build_object(
  'account_id', account,
  'report', jsonb_build_object('customer_id', customer)
));

create function pg_temp.fail(id text, customer text, error_code text default 'account_unknown')
returns text language sql as $$
  select pg_temp.file(id, error_code, 'sub_' || id, jsonb_build_object(
    'kind', 'creation',
    'customer_id', customer
  ))
$$;

select
  pg_temp.fail('fail_lacking', 'cus_checkout'),
  pg_temp.fail('fail_invalid', 'cus_checkout', 'event_invalid'),
  pg_temp.fail('fail_unknown', 'cus_checkout', 'subscription_unknown'),
  pg_temp.fail('fail_lacking_later', 'cus_added');
select is(
  (
    select concat(
      string_agg(concat_ws(' ', a.place, a.outcome), ', ' order by a.place),
      ': ',
      bool_or(a.retries)
    )
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.checkout('cus_checkout', 'acc_checkout') || '{"place": 1}',
      pg_temp.checkout('cus_checkout_new', 'acc_checkout_new') || '{"place": 2}',
      pg_temp.checkout('cus_without_account', null) || '{"place": 3}',
      pg_temp.checkout(null, 'acc_without_customer') || '{"place": 4}',
      pg_temp.created('tap_beside', 10, 'cus_8', 'acc_8') || '{"place": 5}'
    )) as a
  ),
  '1 applied, 2 applied, 3 applied, 4 applied, 5 applied: t',
  'checkouts are applied, and the answer says that there are retries'
);
select is(
  pg_temp.requested(),
  'fail_lacking',
  'a checkout requests the retries of what lacked its account, and no others'
);

select is(
  pg_temp.apply(
    pg_temp.checkout('cus_checkout', 'acc_thief', 'twice'),
    pg_temp.checkout('cus_checkout', 'acc_thief', 'twice'),
    pg_temp.created('tap_checkout', 50, 'cus_checkout')
  )
    || ': '
    || pg_temp.state('tap_checkout'),
  'applied, duplicate, applied: acc_checkout plan_50',
  'a creation gets the account of its customer''s first checkout, which no event dates'
);
select set_eq(
  $$select customer_id || ' ' || account_id from public.billing_customers$$,
  array['cus_checkout acc_checkout', 'cus_checkout_new acc_checkout_new'],
  'a checkout without a customer or an account does nothing'
);

reset role;
create temporary sequence woken;
grant all on woken to service_role;

create or replace function billing.wake_worker(queue text default null) returns boolean language sql
begin atomic select nextval('woken') > 0; end;
set local role service_role;
set constraints all deferred;
insert into public.billing_customers (provider, customer_id, account_id)
values ('a', 'cus_added', 'acc_added'), ('b', 'cus_of_b', 'acc_of_b');
select is(pg_temp.requested(), 'fail_lacking', 'a customer that the app adds requests nothing yet');

set constraints all immediate;
select is(
  pg_temp.requested(),
  'fail_lacking fail_lacking_later',
  'at the end of the transaction, it requests its retries'
);
select is(
  (select last_value from woken where is_called),
  1::bigint,
  'added customers wake the worker once'
);

set constraints all deferred;
update public.billing_customers
set account_id = 'acc_mine'
where customer_id = 'cus_1' or customer_id = 'cus_checkout';
insert into public.billing_customers (provider, customer_id, account_id)
values ('a', 'cus_shared', 'acc_2');
select is(
  array[
    billing.account_of_customer('a', 'cus_checkout'),
    billing.account_of_customer('a', 'cus_shared')
  ],
  '{acc_mine,acc_2}',
  'the app may correct a row, which wins over the subscriptions of the customer'
);

select is(
  pg_temp.fail('fail_of_a', 'cus_of_b'),
  'stored',
  'no failure is retried for a row of the other provider'
);
select lives_ok(
  $$
    insert into billing.customers (provider, customer_id, account_id)
    select 'a', 'cus_many_' || i, 'acc'
    from generate_series(1, 5000) as i;
    set constraints all immediate
  $$,
  'an app may add many at once'
);
select ok(
  (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) < 1100,
  'adding many customers takes few locks'
);

-- Replaced by a project.
reset role;

create or replace function billing.account_of_customer(provider text, customer_id text)
returns text language plpgsql stable set search_path = '' as $$
begin
  if customer_id = 'cus_raises' or customer_id is null then
    raise exception 'No such table.';
  end if;
  return case customer_id
    when 'cus_long' then repeat('x', 256)
    when 'cus_blank' then ''
    else provider || ' ' || customer_id
  end;
end;
$$;
set local role service_role;

select is(
  pg_temp.apply(pg_temp.created('tap_own', 10, 'cus_9')) || ': ' || pg_temp.state('tap_own'),
  'applied: a cus_9 plan_10',
  'a project''s own function is called with the provider and the customer'
);

select is(
  pg_temp.apply(
    pg_temp.created('tap_raises', 10, 'cus_raises'),
    pg_temp.created('tap_fine', 10, 'cus_raises', 'acc_1'),
    pg_temp.created('tap_blank', 10, 'cus_blank'),
    pg_temp.created('tap_long', 10, 'cus_long'),
    pg_temp.created('tap_fine_too', 10, 'cus_fine'),
    pg_temp.early('tap_never', 'cus_raises'),
    pg_temp.created('tap_nobody', 10, null),
    pg_temp.early('tap_never', null)
  ),
  'failed P0001, applied, failed 23514, failed 23514, applied, failed BW006, failed BW005, failed BW001',
  'an error or an invalid account of the project''s function fails only its event'
);
select set_eq(
  $$
    select id
    from billing.subscriptions
    where id in ('tap_raises', 'tap_fine', 'tap_blank', 'tap_long', 'tap_fine_too', 'tap_nobody')
  $$,
  array['tap_fine', 'tap_fine_too'],
  'an event without a valid account leaves no record'
);

select is(
  pg_temp.apply(pg_temp.created('tap_own', 20, 'cus_raises')),
  'applied',
  'the project''s function is not called for a record that exists'
);
select is(
  public.billing_account_of_customer('a', 'cus_9'),
  'a cus_9',
  'the API calls the same function'
);

-- account_email: an account is a user of Supabase Auth.
reset role;
insert into auth.users (id, email)
values
  ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'owner@example.com'),
  ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null),
  ('d0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '');
set local role service_role;
select throws_ok(
  'select email from auth.users',
  '42501',
  null,
  'service_role may not read the users'
);

-- No table of the caller's can take the place of the users.
create temporary table users as select gen_random_uuid() as id, 'thief@example.com' as email;
set local search_path = pg_temp, auth, public, extensions;
select is(
  public.billing_account_email(a.account),
  a.email,
  format('the address of %s', to_jsonb(a.account))
)
from (
  values
    ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'owner@example.com'),
    ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'owner@example.com'),
    ('b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null),
    ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null),
    ('d0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null),
    (null, null),
    ('acc_1', null),
    ('a0eebc999c0b4ef8bb6d6bb9bd380a11', null),
    (E'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n', null)
) as a (account, email);

reset role;
drop schema auth cascade;
set local role service_role;
select is(
  billing.account_email('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
  null,
  'without Auth, no account has an address'
);

select * from finish();
rollback;
