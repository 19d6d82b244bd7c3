/*
 * billing.erase_account: what is stored of an account is deleted, and later events of it, of its
 * subscriptions and of its customers have no effect and are not stored, unless a customer has
 * come back with another account.
 */
begin;
select plan(78);
truncate billing.failed_events, billing.subscriptions, billing.processed_events, billing.notifications, billing.erasures;

-- A creation names acc_ and its subscription, or account; '' is none.
create function pg_temp.apply(
  event_id text,
  kind text,
  subscription_id text,
  customer_id text default null,
  provider text default 'a',
  account text default null
)
returns text language sql as $$
  select concat_ws(' ', a.outcome, a.error_code)
  from public.billing_apply_events(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'place', 1,
    'provider', provider,
    'event_id', event_id,
    'type', 'x',
    'kind', kind,
    'subscription_id', case when kind <> 'other' then subscription_id end,
    'account_id', case
      when kind = 'creation' then nullif(coalesce(account, 'acc_' || subscription_id), '')
      when kind in ('checkout', 'opening_update') then account
    end,
    'named_account', case when kind in ('update', 'other') then account end,
    'report', jsonb_build_object(
      'customer_id', customer_id,
      'subscription_id', case when kind = 'other' then subscription_id end
    )
      || case when kind in (
        'creation',
        'update',
        'opening_update'
      ) then '{"plan_id": "plan_1"}'::jsonb else '{}' end,
    'payment', case when kind = 'payment_failed' then '{}'::jsonb end
  )))) as a
$$;

create function pg_temp.file(
  event_id text,
  subscription_id text,
  customer_id text default null,
  account_id text default null,
  body text default '{}'
)
returns text language sql as $$
  select public.billing_record_failed_event(jsonb_build_object(
    'provider', 'a',
    'event_id', event_id,
    'body', body,
    'body_encoding', 'text',
    'error_code', 'event_invalid',
    'error', 'Failed',
    'type', 'x',
    'kind', 'update',
    'subscription_id', subscription_id,
    'customer_id', customer_id,
    'account_id', account_id
  ))
$$;

create function pg_temp.left_of(account_id text)
returns bigint language sql as $$
  select
    (select count(*) from billing.subscriptions s where s.account_id = left_of.account_id)
    + (select count(*) from billing.notifications n where n.account_id = left_of.account_id)
    + (select count(*) from billing.failed_events f where f.account_id = left_of.account_id)
$$;

select pg_temp.apply('e1', 'creation', '1', 'cus_1'), pg_temp.apply('e2', 'creation', '2', 'cus_2');
select
  pg_temp.apply('e3', 'payment_failed', '1', 'cus_1'),
  pg_temp.apply('e4', 'payment_failed', '2', 'cus_2');
select
  pg_temp.file('f1', '1'),
  pg_temp.file('f2', 'x2', 'cus_1'),
  pg_temp.file('f3', 'x', 'y', 'acc_1'),
  pg_temp.file('f4', 'x4', 'y4', 'z', '{"data": [{"accountId": "acc_1"}]}'),
  pg_temp.file('f5', '2', 'cus_2', 'acc_2', '{"status": "acc_1"}'),
  pg_temp.file('f8', 'x8', 'y8', 'z', '{"data": {"client_reference_id": "acc_1"}}'),
  pg_temp.file('f9', 'x', 'y', 'acc_1', '{ "n": "\u0000" }'),
  pg_temp.file('f10', 'x10', 'y10', 'z', '{"custom_data": {"account_id": "acc_1"}}'),
  pg_temp.file('f11', 'x11', 'y11', 'z', '{"customer": {"external_id": "acc_1"}}');
update billing.failed_events set payload = '{"accountId": "acc_2"}' where event_id = 'f3';
update billing.subscriptions set status = 'past_due' where id = '1';
select public.billing_record_failed_event(jsonb_build_object(
  'provider', 'b',
  'event_id', 'f6',
  'body', '{}',
  'body_encoding', 'text',
  'error_code', 'event_invalid',
  'error', 'Failed',
  'type', 'x',
  'kind', 'update',
  'subscription_id', '1',
  'customer_id', 'cus_1'
));
select throws_ok(
  $$select billing.erase_account('acc_1')$$,
  'P0001',
  'Subscription 1 is past_due at provider a: nothing was erased.',
  'a subscription that goes on is not erased'
);
select is(pg_temp.left_of('acc_1'), 4::bigint, 'nor anything else');
select is(pg_temp.apply('e5', 'deletion', '1', 'cus_1'), 'applied', 'when it has ended');

select is(
  billing.erase_account('acc_1'),
  'Erased: 1 subscriptions, 8 failed events, 1 notifications.',
  'everything is deleted'
);
select is(pg_temp.left_of('acc_1'), 0::bigint, 'of the account');
select is(pg_temp.left_of('acc_2'), 3::bigint, 'and nothing of another one');

select is(pg_temp.apply('e6', 'update', '1', 'cus_1'), 'erased', 'a later event has no effect');

select is(
  pg_temp.apply('e7', 'creation', '3', 'cus_1', account => ''),
  'erased',
  'nor a new subscription of the customer'
);
select is(pg_temp.apply('e8', 'payment_failed', '1'), 'erased', 'and nobody is told');
select is(pg_temp.file('f6', '1'), 'erased', 'a failure is not stored');
select is(pg_temp.file('f7', 'x', 'cus_1'), 'erased', 'by the customer either');
select is(
  (select count(*) from billing.processed_events where event_id in ('e6', 'e7', 'e8', 'f6', 'f7')),
  0::bigint,
  'and the ledger keeps none of them'
);
select is(pg_temp.left_of('acc_1') + pg_temp.left_of('acc_3'), 0::bigint, 'nothing is stored');

select is(
  pg_temp.apply('e9', 'creation', '1', 'cus_1', 'b', 'acc_b'),
  'applied',
  'the same IDs of the other provider are others'
);
select is(pg_temp.apply('e10', 'update', '2', 'cus_2'), 'applied', 'other accounts are as before');
select is_empty(
  $$
    select
    from billing.erasures
    where hash in (
      select sha256(convert_to(i, 'UTF8'))
      from unnest(array['1', 'a:1', 'cus_1', 'a:cus_1']) as i
    )
  $$,
  'without the key, nobody can try IDs'
);
select is(
  billing.forget_erasure('b', 'cus_1'),
  'It was not erased: nothing to forget.',
  'what was not erased cannot be forgotten'
);
select is(
  (select erased_purchases from public.billing_health),
  1::bigint,
  'what would have made a record was counted'
);
select matches(
  billing.forget_erasure('a', 'cus_1'),
  '^Its events have an effect again',
  'what was can'
);
select is((select erased_purchases from public.billing_health), 0::bigint, 'and counts no more');

select is(
  pg_temp.apply('e7', 'creation', '3', 'cus_1'),
  'applied',
  'and the event that had none, sent again, is applied'
);

select matches(
  billing.erase_account('acc_2', force => true),
  '^Erased: 1 subscriptions',
  'one that goes on can be erased by force'
);

select pg_temp.file('q1', 'xq', 'yq', 'z', '{"accountId": "it''s \"so\""}');
select is(
  billing.erase_account('it''s "so"'),
  'Erased: 0 subscriptions, 1 failed events, 0 notifications.',
  'an ID may have quotes'
);

-- What only failures name, and what another account has as well.
create function pg_temp.record(subscription_id text, account_id text, customer_id text)
returns void language sql as $$
  insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id)
  values (subscription_id, 'a', account_id, 'canceled', 'p', customer_id)
$$;
-- The other provider has such a customer too.
select pg_temp.apply('g0', 'creation', 'sub_b', 'cus_only_failed', 'b');
select pg_temp.file('g1', 'sub_only_failed', 'cus_only_failed', 'acc_7');
select
  pg_temp.record('sub_7', 'acc_7', 'cus_shared'),
  pg_temp.record('sub_8', 'acc_8', 'cus_shared');
select
  pg_temp.file('g2', 'sub_8', 'cus_shared', 'acc_8'),
  pg_temp.file('g6', 'sub_8', 'cus_shared', 'acc_7');
select is(
  billing.erase_account('acc_7'),
  'Erased: 1 subscriptions, 2 failed events, 0 notifications.',
  'failures of an account are deleted, also without a record'
);

select is(
  pg_temp.apply('g1', 'creation', 'sub_only_failed', 'cus_x'),
  'erased',
  'and its subscription remembered'
);
select is(pg_temp.file('g3', 'sub_y', 'cus_only_failed'), 'erased', 'and its customer');

select is(
  pg_temp.apply('g4', 'update', 'sub_8', 'cus_shared'),
  'applied',
  'what another account has too is not'
);
select is(
  (select count(*) from billing.failed_events where event_id = 'g2'),
  1::bigint,
  'nor are that account''s failures deleted'
);

-- A failure that is found to be of an erased account at its retry.
select pg_temp.file('g5', 'sub_9', 'cus_9', 'acc_9');
insert into billing.erasures (hash) select sha256(key || 'a:sub_9') from billing.erasure_key;
update billing.failed_events
set retry_requested_at = now(), next_retry_at = now(), original_payload = '{}'
where event_id = 'g5';
select public.billing_claim_failed_events('00000000-0000-4000-8000-000000000001', 9);
select is(
  (
    select a.outcome
    from public.billing_apply_events(
      '[
        {
          "place": 1,
          "provider": "a",
          "event_id": "g5",
          "type": "x",
          "kind": "update",
          "subscription_id": "sub_9",
          "report": {},
          "retry": {"event_id": "g5", "lease_id": "00000000-0000-4000-8000-000000000001"}
        }
      ]'
    ) as a
  ),
  'erased',
  'a retry finds that the account was erased'
);
select is_empty(
  $$select from billing.failed_events where event_id = 'g5'$$,
  'and keeps nothing of it'
);

-- billing.customers.
truncate billing.subscriptions, billing.failed_events, billing.erasures, billing.processed_events;
insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_k', 'acc_k'), ('a', 'cus_l', 'acc_k'), ('a', 'cus_m', 'acc_m');
insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id)
values ('k', 'a', 'acc_k', 'canceled', 'p', 'cus_m');
select matches(
  billing.erase_account('acc_k'),
  '^Erased: 1 subscriptions',
  'an account with customers'
);
select is((select array_agg(customer_id) from billing.customers), array['cus_m'], 'loses them');

select is(
  pg_temp.apply('m1', 'checkout', null, 'cus_k')
    || ' '
    || pg_temp.apply('m2', 'creation', 'z', 'cus_l', account => ''),
  'erased erased',
  'and their events have no effect'
);

select is(
  pg_temp.apply('m3', 'creation', 'y', 'cus_m'),
  'applied',
  'but that of another account has'
);

-- Somebody who was erased comes back: with the same account, or with another one as the same customer.
create function pg_temp.purchases()
returns bigint language sql as 'select erased_purchases from public.billing_health';
truncate billing.subscriptions, billing.failed_events, billing.customers, billing.erasures, billing.processed_events;
select
  pg_temp.apply('r0', 'creation', 'old', 'cus_r', account => 'acc_r'),
  pg_temp.apply('r1', 'deletion', 'old', 'cus_r');
select billing.erase_account('acc_r');
select is(
  pg_temp.apply('r2', kind, 'new_' || kind, customer, account => 'acc_r'),
  'erased',
  format('a %s of the same account, %s', kind, coalesce(customer, 'as nobody'))
)
from unnest(array['creation', 'opening_update', 'checkout', 'update', 'other']) as kind,
  unnest(array['cus_r', 'cus_of_his', null]) as customer;
select is(pg_temp.file('r3', 'new_1', 'cus_other', 'acc_r'), 'erased', 'or a failure of it');
select is(pg_temp.purchases(), 6::bigint, 'those that would have made a record are counted');

select is(
  public.billing_record_failed_event(jsonb_build_object(
    'provider', 'a',
    'event_id', 'r4',
    'body', '{}',
    'body_encoding', 'text',
    'error_code', 'x',
    'error', 'x',
    'type', 'x',
    'kind', 'creation',
    'subscription_id', 'new_2',
    'customer_id', 'cus_r'
  )),
  'erased',
  'of the failures too'
);
select is(pg_temp.purchases(), 7::bigint, 'which may be repaired');

-- What another account names.
select is(
  pg_temp.apply('r5', 'update', 'back', 'cus_r', account => 'acc_s'),
  'failed BW001',
  'an update that comes before its creation waits for it'
);
select is(pg_temp.file('r5', 'back', 'cus_r', 'acc_s'), 'stored', 'as a failure');

select is(
  pg_temp.apply('r6', 'other', null, 'cus_r', account => 'acc_s'),
  'applied',
  'a handler runs'
);

select is(
  pg_temp.apply('r7', 'payment_failed', 'back', 'cus_r'),
  'erased',
  'what names nobody may be of either'
);

select is(
  pg_temp.apply('r8', 'creation', 'back', 'cus_r', account => 'acc_s'),
  'applied',
  'a creation is a new purchase'
);
select is(
  concat_ws(
    ' ',
    pg_temp.apply('r9', 'update', 'back', 'cus_r'),
    pg_temp.apply('r10', 'payment_failed', 'back', 'cus_r'),
    pg_temp.apply('r11', 'other', 'back', 'cus_r'),
    pg_temp.apply('r12', 'creation', 'back_2', 'cus_r', account => ''),
    pg_temp.apply('r13', 'deletion', 'back', 'cus_r'),
    pg_temp.apply('r14', 'update', 'old', 'cus_r')
  ),
  'applied applied applied applied applied erased',
  'and all that follows it is applied, but what is of the old subscription'
);

update billing.subscriptions set account_id = 'acc_t' where id = 'back';
select is(
  pg_temp.apply('r15', 'update', 'back', 'cus_r', account => 'acc_r'),
  'applied',
  'a record of somebody else is changed, whatever its events name'
);

-- What billing.customers names.
select pg_temp.apply('s0', 'creation', 's_old', 'cus_s', account => 'acc_u');
select billing.erase_account('acc_u', force => true);
insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_s', 'acc_v'), ('a', 'cus_t', 'acc_u');
select is(
  pg_temp.apply('s1', 'creation', 's_new', 'cus_s', account => ''),
  'applied',
  'a row in billing.customers is newer than the erasure'
);
select is(
  (select account_id from billing.subscriptions where id = 's_new'),
  'acc_v',
  'and says whose the purchase is'
);

select is(
  pg_temp.apply('s2', 'creation', 's_3', 'cus_t', account => ''),
  'erased',
  'even if it names the erased account'
);
select is(
  billing.forget_erasure('account', 'acc_u')
    || pg_temp.apply('s3', 'creation', 's_3', 'cus_t', account => ''),
  'Its events have an effect again. Have the provider send them again, or run: deno task reconcile --applyapplied',
  'until that is forgotten'
);

-- Failures of another account are its own, though the customer is the same.
select
  pg_temp.apply('t0', 'creation', 't_old', 'cus_w', account => 'acc_w'),
  pg_temp.file('t1', 't_new', 'cus_w', 'acc_x'),
  pg_temp.file('t2', 't_new', 'cus_w');
select matches(
  billing.erase_account('acc_w', force => true),
  '^Erased: 1 subscriptions, 1 failed',
  'and not deleted'
);
select set_eq(
  $$
    select public.billing_is_erased(
      '[
        {"provider": "a", "kind": "creation", "subscription_id": "t_old", "account_id": "acc_x"},
        {"provider": "b", "kind": "creation", "subscription_id": "t_old"},
        {
          "provider": "a",
          "kind": "creation",
          "subscription_id": "t_1",
          "report": {"customer_id": "cus_w"}
        },
        {
          "provider": "a",
          "kind": "creation",
          "subscription_id": "t_2",
          "report": {"customer_id": "cus_w"},
          "account_id": "acc_x"
        },
        {"provider": "b", "kind": "creation", "subscription_id": "t_3", "account_id": "acc_w"}
      ]'
    )
  $$,
  array['t_old', 't_1', 't_3'],
  'import and reconcile may ask'
);

-- What the provider keeps with the customer counts last, as for the account of a record.
create function pg_temp.kept(event_id text, customer_id text)
returns text language sql as $$
  select a.outcome
  from public.billing_apply_events(jsonb_build_array(jsonb_build_object(
    'place', 1,
    'provider', 'a',
    'event_id', event_id,
    'type', 'x',
    'kind', 'opening_update',
    'subscription_id', event_id,
    'fallback_account', 'acc_kept',
    'report', jsonb_build_object(
      'customer_id', customer_id,
      'plan_id', 'p',
      'provider_status', 'active'
    )
  ))) as a
$$;

select is(
  pg_temp.kept('k1', 'cus_k1'),
  'applied',
  'an account that the provider keeps with the customer'
);

update billing.subscriptions set status = 'canceled' where account_id = 'acc_kept';
select billing.erase_account('acc_kept');
select is(pg_temp.kept('k2', 'cus_k2'), 'erased', 'is erased, whatever the customer');

insert into billing.customers (provider, customer_id, account_id) values ('a', 'cus_k3', 'acc_new');
select is(pg_temp.kept('k3', 'cus_k3'), 'applied', 'unless billing.customers names another one');

select is(
  public.billing_record_failed_event(jsonb_build_object(
    'provider', 'a',
    'event_id', 'k_failed' || i,
    'body', '{}',
    'body_encoding', 'text',
    'error_code', 'x',
    'error', 'x',
    'type', 'x',
    'kind', 'opening_update',
    'subscription_id', 'k_new' || i,
    'customer_id', 'cus_k' || i,
    'account_id', 'acc_kept',
    'fallback_account', 'acc_kept'
  )),
  answer,
  format('a failure %s', answer)
)
from (values (3, 'stored'), (4, 'erased')) as f (i, answer);

-- In one call with the purchase of somebody who has come back.
create function pg_temp.together(variadic kinds text[])
returns text language sql as $$
  select pg_temp.apply(
    kinds::text,
    'creation',
    kinds::text || 'old',
    'cus_' || kinds::text,
    account => 'acc_gone'
  );
  select
    billing.erase_account('acc_gone', force => true),
    billing.forget_erasure('account', 'acc_gone');
  select string_agg(a.outcome, ' ' order by a.place)
  from public.billing_apply_events((
    select jsonb_agg(jsonb_build_object(
      'place', k.place,
      'provider', 'a',
      'event_id', kinds::text || k.place,
      'type', 'x',
      'kind', k.kind,
      'subscription_id', kinds::text,
      'account_id', case when k.place = 1 and k.kind <> 'update' then 'acc_again' end,
      'occurred_at', to_timestamp(1800000000 + k.place),
      'report', jsonb_build_object(
        'customer_id', 'cus_' || kinds::text,
        'plan_id', 'p',
        'provider_status', 'active'
      )
    ))
    from unnest(kinds) with ordinality as k (kind, place)
  )) as a
$$;

select is(
  pg_temp.together('creation', 'update', 'payment_failed', 'deletion'),
  'applied applied applied applied',
  'what follows it in the same call is applied, though it names nobody'
);
select is(
  pg_temp.together('opening_update', 'opening_update', 'deletion'),
  'applied applied applied',
  'of every format'
);
select is(pg_temp.together('update', 'creation'), 'erased erased', 'but nothing else');

insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_known', 'acc_known');
select is(
  (
    select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
    from public.billing_apply_events(jsonb_build_array(
      jsonb_build_object(
        'place', 1,
        'provider', 'a',
        'event_id', customer || '_1',
        'type', 'x',
        'kind', 'opening_update',
        'subscription_id', customer,
        'occurred_at', '2027-01-01Z',
        'report', jsonb_build_object('plan_id', 'p', 'customer_id', customer)
      ),
      jsonb_build_object(
        'place', 2,
        'provider', 'a',
        'event_id', customer || '_2',
        'type', 'x',
        'kind', 'deletion',
        'subscription_id', customer,
        'occurred_at', '2027-01-02Z',
        'report', '{}'::jsonb,
        'named_account', 'acc_r'
      )
    )) as a
  ),
  outcomes,
  format('what names the erased account, after what is of %s', customer)
)
from (
  values
    ('cus_known', 'applied, applied'),
    ('cus_unknown', 'failed BW005, erased')
) as c (customer, outcomes);

-- Both providers may have an event with the same ID.
select public.billing_record_failed_event(jsonb_build_object(
  'provider', p,
  'event_id', 'twin',
  'body', body,
  'body_encoding', 'text',
  'error_code', 'x',
  'error', 'x'
))
from (values ('a', '{"accountId": "acc_twin"}'), ('b', '{}')) as f (p, body);
select billing.erase_account('acc_twin');
select results_eq(
  $$select provider from billing.failed_events where event_id = 'twin'$$,
  array['b'::text collate "C"],
  'only the failure that names the account is deleted'
);

select throws_like(
  'select billing.erase_account(null)',
  'Name the account: %',
  'nobody is no account'
);

select * from finish();
rollback;
