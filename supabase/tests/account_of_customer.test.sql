/*
 * A creation without an account: account_of_customer is asked, as it is shipped
 * and replaced by a project.
 */
begin;
select plan(40);

-- The answer in the order of the places, such as 'applied, failed BW005'.
create function pg_temp.apply(variadic p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events(to_jsonb(p_events)) as a
$$;

-- A creation; the time is a second of a made-up clock.
create function pg_temp.created(p_id text, p_at integer, p_customer text, p_account text, p_provider text default 'a')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', p_provider, 'event_id', 'tap_' || gen_random_uuid(), 'type', 'customer.subscription.created',
    'created', to_timestamp(1800000000 + p_at), 'subscription_id', p_id, 'account_id', p_account,
    'plan_id', 'plan_' || p_at, 'current_period_end', to_timestamp(1800001000 + p_at),
    'provider_status', 'active', 'customer_id', p_customer
  )
$$;

create function pg_temp.state(p_id text)
returns text
language sql
as $$
  select concat_ws(' ', s.account_id, s.plan_id, extract(epoch from s.account_as_of)::bigint - 1800000000)
  from public.subscriptions s
  where s.id = p_id
$$;

set local role service_role;

-- As it is shipped.

select is(
  pg_temp.apply(pg_temp.created('tap_1', 10, 'cus_1', null)), 'failed BW005',
  'a creation without an account fails if the customer is new'
);
select is(
  (select a.error from public.apply_billing_events(jsonb_build_array(
    pg_temp.created('tap_1', 10, 'cus_1', null)
  )) as a),
  'data.object.metadata.accountId is missing, and account_of_customer knows no account of the customer.',
  'its message names the field'
);
select is_empty(
  $$select from public.subscriptions where id like 'tap\_%'
    union all select from public.processed_events where event_id like 'tap\_%'$$,
  'it leaves no record and no claim'
);
select is(
  pg_temp.apply(pg_temp.created('tap_1', 10, null, null)), 'failed BW005',
  'a creation with neither account nor customer fails as well'
);
select is(
  pg_temp.apply(
    pg_temp.created('tap_known', 10, 'cus_1', 'acc_1'),
    pg_temp.created('tap_bystander', 10, 'cus_2', 'acc_2')
  ),
  'applied, applied', 'creations with an account are applied'
);
select is(pg_temp.apply(pg_temp.created('tap_1', 20, 'cus_1', null)), 'applied', 'a known customer has an account');
select is(pg_temp.state('tap_1'), 'acc_1 plan_20', 'it is that of the other subscription, and dated by no event');
select is(
  pg_temp.apply(pg_temp.created('tap_of_b', 20, 'cus_1', null, 'b')), 'failed BW005',
  'a customer of the other provider is another customer'
);
select is(
  pg_temp.apply(pg_temp.created('tap_2', 20, 'cus_1', null), pg_temp.created('tap_3', 20, 'cus_1', null)),
  'applied, applied', 'it goes on for any number of subscriptions'
);
update public.subscriptions set status = 'canceled', canceled_at = now() where id in ('tap_known', 'tap_1', 'tap_2', 'tap_3');
select is(
  pg_temp.apply(pg_temp.created('tap_4', 20, 'cus_1', null)), 'applied',
  'subscriptions that have ended still say whose the customer is'
);
select is(public.account_of_customer('a', 'cus_2'), 'acc_2', 'each customer has its own account');
select is(public.account_of_customer('a', 'cus_3'), null, 'an unknown customer has none');
select is(public.account_of_customer('a', null), null, 'no customer has none');

-- Subscriptions of one customer that have different accounts.

select is(
  pg_temp.apply(
    pg_temp.created('tap_mine', 10, 'cus_shared', 'acc_1'),
    pg_temp.created('tap_yours', 10, 'cus_shared', 'acc_2')
  ),
  'applied, applied', 'two accounts share a customer'
);
select is(public.account_of_customer('a', 'cus_shared'), null, 'then the customer tells nothing');
select is(
  pg_temp.apply(pg_temp.created('tap_whose', 20, 'cus_shared', null)), 'failed BW005',
  'so a creation without an account fails'
);

-- Together, in one array.

select is(
  pg_temp.apply(
    pg_temp.created('tap_b', 20, 'cus_new', null),
    pg_temp.created('tap_a', 20, 'cus_new', 'acc_new')
  ),
  'applied, applied', 'events of one array are applied by subscription, so one sees the account of an earlier one'
);
select is(pg_temp.state('tap_b'), 'acc_new plan_20', 'and has it');
select is(
  pg_temp.apply(
    pg_temp.created('tap_c', 20, 'cus_newer', null),
    pg_temp.created('tap_d', 20, 'cus_newer', 'acc_newer')
  ),
  'failed BW005, applied', 'but not of a later one: it fails alone'
);
select is(pg_temp.apply(pg_temp.created('tap_c', 20, 'cus_newer', null)), 'applied', 'and its retry finds the account');

-- A record that is there.

select is(
  pg_temp.apply(pg_temp.created('tap_known', 30, 'cus_2', null)), 'applied',
  'a newer creation without an account is applied to a record'
);
select is(pg_temp.state('tap_known'), 'acc_1 plan_30 10', 'which keeps its own account, even if another customer is named now');
select is(
  pg_temp.apply(pg_temp.created('tap_known', 25, 'cus_2', null)), 'stale',
  'an older one changes nothing'
);
select is(
  pg_temp.apply(pg_temp.created('tap_known', 20, 'cus_2', 'acc_9')), 'applied',
  'an older creation with an account, newer than the account of the record, brings the account'
);
select is(pg_temp.state('tap_known'), 'acc_9 plan_30 20', 'and nothing else');
select is(
  pg_temp.apply(pg_temp.created('tap_4', 15, 'cus_1', 'acc_own')), 'applied',
  'a creation with an account, however old, wins over what the customer told'
);
select is(pg_temp.state('tap_4'), 'acc_own plan_20 15', 'the account is its own, the plan is the newer one''s');

-- Events that arrive before the creation.

create function pg_temp.update_of(p_id text, p_customer text, p_type text default 'customer.subscription.updated')
returns jsonb
language sql
as $$
  select pg_temp.created(p_id, 40, p_customer, null) || jsonb_build_object('type', p_type, 'status', 'active')
$$;
select is(
  pg_temp.apply(pg_temp.update_of('tap_later', 'cus_new')), 'failed BW006',
  'an event of a known customer''s subscription that is not recorded waits for its creation'
);
select is(
  pg_temp.apply(
    pg_temp.update_of('tap_later', 'cus_new', 'invoice.payment_failed'),
    pg_temp.update_of('tap_later', 'cus_new', 'customer.subscription.deleted'),
    pg_temp.update_of('tap_later', 'cus_shared'),
    pg_temp.update_of('tap_later', 'cus_nobody'),
    pg_temp.update_of('tap_later', null)
  ),
  'failed BW006, failed BW006, failed BW001, failed BW001, failed BW001',
  'whatever its type; others are unknown'
);
select is(
  (select a.error from public.apply_billing_events(jsonb_build_array(pg_temp.update_of('tap_later', 'cus_new'))) as a),
  'No subscription tap_later is recorded.', 'the message is the same'
);
select is(
  pg_temp.apply(pg_temp.created('tap_later', 30, 'cus_new', null), pg_temp.update_of('tap_later', 'cus_new')),
  'applied, applied', 'with the creation, it is applied'
);

-- Replaced by a project.

reset role;
create or replace function public.account_of_customer(provider text, customer_id text)
returns text
language plpgsql
stable
set search_path = ''
as $$
begin
  if customer_id = 'cus_raises' then
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

select is(pg_temp.apply(pg_temp.created('tap_own', 10, 'cus_9', null)), 'applied', 'a project''s own function is asked');
select is(pg_temp.state('tap_own'), 'a cus_9 plan_10', 'with the provider and the customer');
select is(
  pg_temp.apply(
    pg_temp.created('tap_raises', 10, 'cus_raises', null),
    pg_temp.created('tap_fine', 10, 'cus_raises', 'acc_1'),
    pg_temp.created('tap_blank', 10, 'cus_blank', null),
    pg_temp.created('tap_long', 10, 'cus_long', null),
    pg_temp.created('tap_fine_too', 10, 'cus_fine', null)
  ),
  'failed P0001, applied, failed 23514, failed 23514, applied',
  'if it raises an error or answers what is no account id, only that event fails'
);
select is_empty(
  $$select from public.subscriptions where id in ('tap_raises', 'tap_blank', 'tap_long')$$,
  'and leaves no record'
);
select is(
  pg_temp.apply(pg_temp.created('tap_nobody', 10, null, null)), 'failed BW005',
  'it is not asked about no customer'
);
select is(
  pg_temp.apply(pg_temp.created('tap_own', 20, 'cus_raises', null)), 'applied',
  'nor about the customer of a record that is there'
);

select is(
  pg_temp.apply(
    pg_temp.update_of('tap_never', 'cus_raises'),
    pg_temp.created('tap_fine_still', 10, 'cus_raises', 'acc_1')
  ),
  'failed BW006, applied', 'if it raises an error for an event that is early, that event comes again'
);

-- Events of a receiver that is older than these columns.

select is(
  pg_temp.apply(pg_temp.created('tap_old', 10, null, 'acc_1') - 'provider_status' - 'customer_id'), 'applied',
  'a creation without any of the new keys is applied'
);

-- Many subscriptions: no customer makes the others wait.

reset role;
create function pg_temp.shipped()
returns text
language sql
as $$
  select case when count(distinct s.account_id) = 1 then min(s.account_id) end
  from public.subscriptions s
  where s.provider = 'a' and s.customer_id = 'cus_2'
$$;
insert into public.subscriptions (id, provider, account_id, customer_id, status, plan_id, current_period_end)
select 'tap_many_' || i, 'a', 'acc_' || i, 'cus_many_' || i, 'active', 'plan_1', now()
from generate_series(1, 20000) as i;
analyze public.subscriptions;
create temporary table scans as
select seq_scan from pg_stat_xact_user_tables where relname = 'subscriptions';
select pg_temp.shipped();
select is(
  (select seq_scan from pg_stat_xact_user_tables where relname = 'subscriptions'), (select seq_scan from scans),
  'the shipped query finds the customer by key'
);

select * from finish();
rollback;
