/*
 * billing.erase_account: what is stored of an account is deleted, and later events of its
 * subscriptions and customers have no effect and are not stored.
 */
begin;
select plan(32);
truncate billing.failed_events, billing.subscriptions, billing.processed_events, billing.notifications, billing.erasures;

create function pg_temp.apply(event_id text, kind text, subscription_id text, customer_id text default null, provider text default 'a')
returns text language sql as $$
  select a.outcome from public.billing_apply_events(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'place', 1, 'provider', provider, 'event_id', event_id, 'type', 'x', 'kind', kind, 'subscription_id', subscription_id,
    'account_id', case when kind = 'creation' then 'acc_' || subscription_id end,
    'report', jsonb_build_object('customer_id', customer_id) || case when kind in ('creation', 'update') then '{"plan_id": "plan_1"}'::jsonb else '{}' end,
    'payment', case when kind = 'payment_failed' then '{}'::jsonb end
  )))) as a
$$;

create function pg_temp.file(event_id text, subscription_id text, customer_id text default null, account_id text default null, body text default '{}')
returns text language sql as $$
  select public.billing_record_failed_event(
    'a', event_id, body, 'text', 'event_invalid', 'Failed', 'x', 'update', subscription_id, customer_id, account_id
  )
$$;

create function pg_temp.left_of(account_id text)
returns bigint language sql as $$
  select
    (select count(*) from billing.subscriptions s where s.account_id = left_of.account_id)
    + (select count(*) from billing.notifications n where n.account_id = left_of.account_id)
    + (select count(*) from billing.failed_events f where f.account_id = left_of.account_id)
$$;

select pg_temp.apply('e1', 'creation', '1', 'cus_1'), pg_temp.apply('e2', 'creation', '2', 'cus_2');
select pg_temp.apply('e3', 'payment_failed', '1', 'cus_1'), pg_temp.apply('e4', 'payment_failed', '2', 'cus_2');
select pg_temp.file('f1', '1'), pg_temp.file('f2', 'x2', 'cus_1'), pg_temp.file('f3', 'x', 'y', 'acc_1'),
  pg_temp.file('f4', 'x4', 'y4', 'z', '{"data": [{"accountId": "acc_1"}]}'), pg_temp.file('f5', '2', 'cus_2', 'acc_2', '{"status": "acc_1"}'),
  pg_temp.file('f8', 'x8', 'y8', 'z', '{"data": {"client_reference_id": "acc_1"}}'), pg_temp.file('f9', 'x', 'y', 'acc_1', '{ "n": "\u0000" }'),
  pg_temp.file('f10', 'x10', 'y10', 'z', '{"custom_data": {"account_id": "acc_1"}}'), pg_temp.file('f11', 'x11', 'y11', 'z', '{"customer": {"external_id": "acc_1"}}');
update billing.failed_events set payload = '{"accountId": "acc_2"}' where event_id = 'f3';
update billing.subscriptions set status = 'past_due' where id = '1';
select public.billing_record_failed_event('b', 'f6', '{}', 'text', 'event_invalid', 'Failed', 'x', 'update', '1', 'cus_1');
select throws_ok(
  $$select billing.erase_account('acc_1')$$, 'P0001', 'Subscription 1 is past_due at provider a: nothing was erased.', 'a subscription that goes on is not erased'
);
select is(pg_temp.left_of('acc_1'), 4::bigint, 'nor anything else');
select is(pg_temp.apply('e5', 'deletion', '1', 'cus_1'), 'applied', 'when it has ended');
select is(billing.erase_account('acc_1'), 'Erased: 1 subscriptions, 8 failed events, 1 notifications.', 'everything is deleted');
select is(pg_temp.left_of('acc_1'), 0::bigint, 'of the account');
select is(pg_temp.left_of('acc_2'), 3::bigint, 'and nothing of another one');

select is(pg_temp.apply('e6', 'update', '1', 'cus_1'), 'erased', 'a later event has no effect');
select is(pg_temp.apply('e7', 'creation', '3', 'cus_1'), 'erased', 'nor a new subscription of the customer');
select is(pg_temp.apply('e8', 'payment_failed', '1'), 'erased', 'and nobody is told');
select is(pg_temp.file('f6', '1'), 'erased', 'a failure is not stored');
select is(pg_temp.file('f7', 'x', 'cus_1'), 'erased', 'by the customer either');
select is(
  (select count(*) from billing.processed_events where event_id in ('e6', 'e7', 'e8', 'f6', 'f7')), 0::bigint, 'and the ledger keeps none of them'
);
select is(pg_temp.left_of('acc_1') + pg_temp.left_of('acc_3'), 0::bigint, 'nothing is stored');
select is(pg_temp.apply('e9', 'creation', '1', 'cus_1', 'b'), 'applied', 'the same IDs of the other provider are others');
select is(pg_temp.apply('e10', 'update', '2', 'cus_2'), 'applied', 'other accounts are as before');
select is_empty(
  $$select from billing.erasures where hash in (select sha256(convert_to(i, 'UTF8')) from unnest(array['1', 'a:1', 'cus_1', 'a:cus_1']) as i)$$,
  'without the key, nobody can try IDs'
);
select is(billing.forget_erasure('b', 'cus_1'), 'It was not erased: nothing to forget.', 'what was not erased cannot be forgotten');
select matches(billing.forget_erasure('a', 'cus_1'), '^Its events have an effect again', 'what was can');
select is(pg_temp.apply('e7', 'creation', '3', 'cus_1'), 'applied', 'and the event that had none, sent again, is applied');
select matches(billing.erase_account('acc_2', force => true), '^Erased: 1 subscriptions', 'one that goes on can be erased by force');

select pg_temp.file('q1', 'xq', 'yq', 'z', '{"accountId": "it''s \"so\""}');
select is(billing.erase_account('it''s "so"'), 'Erased: 0 subscriptions, 1 failed events, 0 notifications.', 'an ID may have quotes');

-- What only failures name, and what another account has as well.
create function pg_temp.record(subscription_id text, account_id text, customer_id text)
returns void language sql as $$
  insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id)
  values (subscription_id, 'a', account_id, 'canceled', 'p', customer_id)
$$;
-- The other provider has such a customer too.
select pg_temp.apply('g0', 'creation', 'sub_b', 'cus_only_failed', 'b');
select pg_temp.file('g1', 'sub_only_failed', 'cus_only_failed', 'acc_7');
select pg_temp.record('sub_7', 'acc_7', 'cus_shared'), pg_temp.record('sub_8', 'acc_8', 'cus_shared');
select pg_temp.file('g2', 'sub_8', 'cus_shared', 'acc_8'), pg_temp.file('g6', 'sub_8', 'cus_shared', 'acc_7');
select is(billing.erase_account('acc_7'), 'Erased: 1 subscriptions, 2 failed events, 0 notifications.', 'failures of an account are deleted, also without a record');
select is(pg_temp.apply('g1', 'creation', 'sub_only_failed', 'cus_x'), 'erased', 'and its subscription remembered');
select is(pg_temp.file('g3', 'sub_y', 'cus_only_failed'), 'erased', 'and its customer');
select is(pg_temp.apply('g4', 'update', 'sub_8', 'cus_shared'), 'applied', 'what another account has too is not');
select is((select count(*) from billing.failed_events where event_id = 'g2'), 1::bigint, 'nor are that account''s failures deleted');

-- A failure that is found to be of an erased account at its retry.
select pg_temp.file('g5', 'sub_9', 'cus_9', 'acc_9');
insert into billing.erasures (hash) select sha256(key || 'a:sub_9') from billing.erasure_key;
update billing.failed_events set retry_requested_at = now(), next_retry_at = now(), original_payload = '{}' where event_id = 'g5';
select public.billing_claim_failed_events('00000000-0000-4000-8000-000000000001', 9);
select is(
  (select a.outcome from public.billing_apply_events('[{
    "place": 1, "provider": "a", "event_id": "g5", "type": "x", "kind": "update", "subscription_id": "sub_9", "report": {},
    "retry": {"event_id": "g5", "lease_id": "00000000-0000-4000-8000-000000000001"}
  }]') as a), 'erased', 'a retry finds that the account was erased'
);
select is_empty($$select from billing.failed_events where event_id = 'g5'$$, 'and keeps nothing of it');

-- billing.customers.
truncate billing.subscriptions, billing.failed_events, billing.erasures, billing.processed_events;
insert into billing.customers (provider, customer_id, account_id) values ('a', 'cus_k', 'acc_k'), ('a', 'cus_l', 'acc_k'), ('a', 'cus_m', 'acc_m');
insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id) values ('k', 'a', 'acc_k', 'canceled', 'p', 'cus_m');
select matches(billing.erase_account('acc_k'), '^Erased: 1 subscriptions', 'an account with customers');
select is((select array_agg(customer_id) from billing.customers), array['cus_m'], 'loses them');
select is(pg_temp.apply('m1', 'checkout', null, 'cus_k') || ' ' || pg_temp.apply('m2', 'creation', 'z', 'cus_l'), 'erased erased', 'and their events have no effect');
select is(pg_temp.apply('m3', 'creation', 'y', 'cus_m'), 'applied', 'but that of another account has');
select * from finish();
rollback;
