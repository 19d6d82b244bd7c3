/*
 * billing.erase_account: what is stored of an account is deleted, and later events of it, of its
 * subscriptions and of its customers have no effect and are not stored, unless a customer has
 * come back with another account.
 */
begin;
select plan(63);
truncate
  billing.failed_events,
  billing.subscriptions,
  billing.grants,
  billing.processed_events,
  billing.notifications,
  billing.erasures;

-- `account` is what the event names; a creation without one names acc_ and its subscription, and
-- with '' none.
create function pg_temp.event_of(
  event_id text,
  kind text,
  subscription_id text,
  customer_id text default null,
  provider text default 'a',
  account text default null
)
returns jsonb language sql
return jsonb_strip_nulls(jsonb_build_object(
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
    'subscription_id', case when kind = 'other' then subscription_id end,
    'plan_id', case when kind in ('creation', 'update', 'opening_update') then 'plan_1' end,
    'provider_status', case when kind = 'opening_update' then 'active' end
  ),
  'payment', case when kind = 'payment_failed' then '{}'::jsonb end
));

create function pg_temp.deliver(
  event_id text,
  kind text,
  subscription_id text,
  customer_id text default null,
  provider text default 'a',
  account text default null
)
returns text language sql as $$
  select pg_temp.apply(
    pg_temp.event_of(event_id, kind, subscription_id, customer_id, provider, account)
  )
$$;

create function pg_temp.store(
  event_id text,
  subscription_id text,
  customer_id text default null,
  account_id text default null,
  body text default '{}',
  fields jsonb default '{}'
)
returns text language sql as $$
  select pg_temp.file(event_id, 'event_invalid', subscription_id, jsonb_build_object(
    'body', body,
    'customer_id', customer_id,
    'account_id', account_id
  ) || fields)
$$;

create function pg_temp.left_of(account_id text)
returns bigint language sql as $$
  select
    (select count(*) from billing.subscriptions s where s.account_id = left_of.account_id)
    + (select count(*) from billing.notifications n where n.account_id = left_of.account_id)
    + (select count(*) from billing.failed_events f where f.account_id = left_of.account_id)
$$;

select
  pg_temp.deliver('event_1', 'creation', '1', 'cus_1'),
  pg_temp.deliver('event_2', 'creation', '2', 'cus_2'),
  pg_temp.deliver('event_3', 'payment_failed', '1', 'cus_1'),
  pg_temp.deliver('event_4', 'payment_failed', '2', 'cus_2');
select
  pg_temp.store('failure_1', '1'),
  pg_temp.store('failure_2', 'x2', 'cus_1'),
  pg_temp.store('failure_3', 'x', 'y', 'acc_1'),
  pg_temp.store('failure_4', 'x4', 'y4', 'z', '{"data": [{"accountId": "acc_1"}]}'),
  pg_temp.store('failure_5', '2', 'cus_2', 'acc_2', '{"status": "acc_1"}'),
  pg_temp.store('failure_8', 'x8', 'y8', 'z', '{"data": {"client_reference_id": "acc_1"}}'),
  pg_temp.store('failure_9', 'x', 'y', 'acc_1', '{ "n": "\u0000" }'),
  pg_temp.store('failure_10', 'x10', 'y10', 'z', '{"custom_data": {"account_id": "acc_1"}}'),
  pg_temp.store('failure_11', 'x11', 'y11', 'z', '{"customer": {"external_id": "acc_1"}}');
update billing.failed_events set payload = '{"accountId": "acc_2"}' where event_id = 'failure_3';
update billing.subscriptions set status = 'past_due' where id = '1';
select pg_temp.store('failure_6', '1', 'cus_1', fields => '{"provider": "b"}');

select throws_ok(
  $$select billing.erase_account('acc_1')$$,
  'P0001',
  'Subscription 1 is past_due at provider a: nothing was erased.',
  'a subscription that goes on is not erased'
);
select is(pg_temp.left_of('acc_1'), 4::bigint, 'a refused erasure deletes nothing');
select pg_temp.deliver('event_5', 'deletion', '1', 'cus_1');

select is(
  billing.erase_account('acc_1'),
  'Erased: 1 subscriptions, 8 failed events, 1 notifications.',
  'an account whose subscriptions have ended is erased'
);
select is(
  array[pg_temp.left_of('acc_1'), pg_temp.left_of('acc_2')],
  '{0,3}',
  'nothing is left of it, and others keep what is theirs'
);

select is(
  array[
    pg_temp.deliver('event_6', 'update', '1', 'cus_1'),
    pg_temp.deliver('event_7', 'creation', '3', 'cus_1', account => ''),
    pg_temp.deliver('event_8', 'payment_failed', '1'),
    pg_temp.store('failure_6', '1'),
    pg_temp.store('failure_7', 'x', 'cus_1')
  ],
  array_fill('erased'::text, array[5]),
  'later events and failures of its subscription and its customer have no effect'
);
select is(
  (select count(*) from billing.processed_events where event_id ~ '^(event_[678]|failure_[67])$'),
  0::bigint,
  'the ledger has none of them'
);
select is(
  pg_temp.left_of('acc_1') + pg_temp.left_of('acc_3'),
  0::bigint,
  'they store nothing'
);

select is(
  array[
    pg_temp.deliver('event_9', 'creation', '1', 'cus_1', 'b', 'acc_b'),
    pg_temp.deliver('event_10', 'update', '2', 'cus_2')
  ],
  '{applied,applied}',
  'the same IDs of the other provider, and other accounts, are not erased'
);
select is_empty(
  $$
    select
    from billing.erasures
    where hash in (
      select sha256(convert_to(i, 'UTF8'))
      from unnest(array['1', 'a:1', 'cus_1', 'a:cus_1']) as i
    )
  $$,
  'hashes cannot be found by trying IDs without the key'
);
select is(
  billing.forget_erasure('b', 'cus_1'),
  'It was not erased: nothing to forget.',
  'an erasure that is not there cannot be forgotten'
);
create function pg_temp.purchases()
returns bigint language sql as 'select erased_purchases from public.billing_health';
select is(pg_temp.purchases(), 1::bigint, 'purchases of an erased customer are counted');
select matches(
  billing.forget_erasure('a', 'cus_1'),
  '^Its events have an effect again',
  'the erasure of a customer can be forgotten'
);
select is(pg_temp.purchases(), 0::bigint, 'a forgotten erasure counts no purchases');

select is(
  pg_temp.deliver('event_7', 'creation', '3', 'cus_1'),
  'applied',
  'after that, the customer''s event is applied'
);

select matches(
  billing.erase_account('acc_2', force => true),
  '^Erased: 1 subscriptions',
  'an account with an active subscription can be erased by force'
);

select billing.grant_plan('acc_granted', 'p', reason => 'a gift');
select is(
  billing.erase_account('acc_granted'),
  'Erased: 1 subscriptions, 0 failed events, 0 notifications.',
  'an account with a grant can be erased'
);
select is_empty('select from billing.grants', 'grants of an erased account are deleted');

select pg_temp.store('quoted', 'x5', 'y5', 'z', '{"accountId": "it''s \"so\""}');
select is(
  billing.erase_account('it''s "so"'),
  'Erased: 0 subscriptions, 1 failed events, 0 notifications.',
  'an account ID with quotes can be erased'
);

-- IDs that only failures name, or that another account shares.
create function pg_temp.record(subscription_id text, account_id text, customer_id text)
returns void language sql as $$
  insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id)
  values (subscription_id, 'a', account_id, 'canceled', 'p', customer_id)
$$;
-- The other provider has such a customer too.
select pg_temp.deliver('shared_0', 'creation', 'sub_b', 'cus_only_failed', 'b');
select pg_temp.store('shared_1', 'sub_only_failed', 'cus_only_failed', 'acc_7');
select
  pg_temp.record('sub_7', 'acc_7', 'cus_shared'),
  pg_temp.record('sub_8', 'acc_8', 'cus_shared');
select
  pg_temp.store('shared_2', 'sub_8', 'cus_shared', 'acc_8'),
  pg_temp.store('shared_6', 'sub_8', 'cus_shared', 'acc_7');
select is(
  billing.erase_account('acc_7'),
  'Erased: 1 subscriptions, 2 failed events, 0 notifications.',
  'failures that name an account are deleted, with or without a record'
);

select is(
  array[
    pg_temp.deliver('shared_1', 'creation', 'sub_only_failed', 'cus_x'),
    pg_temp.store('shared_3', 'sub_y', 'cus_only_failed'),
    pg_temp.deliver('shared_4', 'update', 'sub_8', 'cus_shared')
  ],
  '{erased,erased,applied}',
  'what only a failure names is erased, a customer that another account shares is not'
);
select is(
  (select count(*) from billing.failed_events where event_id = 'shared_2'),
  1::bigint,
  'failures that name another account stay'
);

-- A failure whose account turns out to be erased when it is retried.
select pg_temp.store('shared_5', 'sub_9', 'cus_9', 'acc_9');
insert into billing.erasures (hash) select sha256(key || 'a:sub_9') from billing.erasure_key;
update billing.failed_events
set retry_requested_at = now(), next_retry_at = now(), original_payload = '{}'
where event_id = 'shared_5';
select public.billing_claim_failed_events('00000000-0000-4000-8000-000000000001', 9);
select is(
  pg_temp.apply(pg_temp.event_of('shared_5', 'update', 'sub_9') || '{
    "retry": {"event_id": "shared_5", "lease_id": "00000000-0000-4000-8000-000000000001"}
  }'),
  'erased',
  'a retry finds that the account was erased'
);
select is_empty(
  $$select from billing.failed_events where event_id = 'shared_5'$$,
  'its failure is deleted'
);

-- Customers of an erased account.
truncate billing.subscriptions, billing.failed_events, billing.erasures, billing.processed_events,
  billing.grants;
insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_k', 'acc_customers'), ('a', 'cus_l', 'acc_customers'), ('a', 'cus_m', 'acc_m');
insert into billing.subscriptions (id, provider, account_id, status, plan_id, customer_id)
values ('k', 'a', 'acc_customers', 'canceled', 'p', 'cus_m');
select billing.erase_account('acc_customers');
select is(
  (select array_agg(customer_id) from billing.customers),
  array['cus_m'],
  'customers of an erased account are deleted, and others stay'
);

select is(
  array[
    pg_temp.deliver('customer_1', 'checkout', null, 'cus_k'),
    pg_temp.deliver('customer_2', 'creation', 'z', 'cus_l', account => ''),
    pg_temp.deliver('customer_3', 'creation', 'y', 'cus_m')
  ],
  '{erased,erased,applied}',
  'only events of erased customers have no effect'
);

-- A customer comes back after the erasure, first with the same account.
truncate
  billing.subscriptions,
  billing.grants,
  billing.failed_events,
  billing.customers,
  billing.erasures,
  billing.processed_events;
select
  pg_temp.deliver('return_0', 'creation', 'old', 'cus_returning', account => 'acc_erased'),
  pg_temp.deliver('return_1', 'deletion', 'old', 'cus_returning');
select billing.erase_account('acc_erased');
select is(
  pg_temp.deliver('return_2', kind, 'new_' || kind, customer, account => 'acc_erased'),
  'erased',
  format(
    'a %s of the erased account with customer %s has no effect',
    kind,
    coalesce(customer, 'null')
  )
)
from unnest(array['creation', 'opening_update', 'checkout', 'update', 'other']) as kind,
  unnest(array['cus_returning', 'cus_of_his', null]) as customer;
select is(
  pg_temp.store('return_3', 'new_1', 'cus_other', 'acc_erased'),
  'erased',
  'a failure that names the erased account is not stored'
);
select is(
  pg_temp.purchases(),
  6::bigint,
  'events of the erased account that would have made a record are counted'
);

select pg_temp.store('return_4', 'new_2', 'cus_returning', fields => '{"kind": "creation"}');
select is(
  pg_temp.purchases(),
  7::bigint,
  'a failed creation of an erased customer is counted as a purchase'
);

-- The same customer comes back with another account.
select is(
  array[
    pg_temp.deliver('return_5', 'update', 'back', 'cus_returning', account => 'acc_successor'),
    pg_temp.store('return_5', 'back', 'cus_returning', 'acc_successor'),
    pg_temp.deliver('return_6', 'other', null, 'cus_returning', account => 'acc_successor'),
    -- It names no account.
    pg_temp.deliver('return_7', 'payment_failed', 'back', 'cus_returning'),
    pg_temp.deliver('return_8', 'creation', 'back', 'cus_returning', account => 'acc_successor')
  ],
  '{"failed BW001",stored,applied,erased,applied}',
  'events that name the new account are not erased'
);
select is(
  concat_ws(
    ' ',
    pg_temp.deliver('return_9', 'update', 'back', 'cus_returning'),
    pg_temp.deliver('return_10', 'payment_failed', 'back', 'cus_returning'),
    pg_temp.deliver('return_11', 'other', 'back', 'cus_returning'),
    pg_temp.deliver('return_12', 'creation', 'back_2', 'cus_returning', account => ''),
    pg_temp.deliver('return_13', 'deletion', 'back', 'cus_returning'),
    pg_temp.deliver('return_14', 'update', 'old', 'cus_returning')
  ),
  'applied applied applied applied applied erased',
  'all later events are applied, except those of the old subscription'
);

update billing.subscriptions set account_id = 'acc_third' where id = 'back';
select is(
  pg_temp.deliver('return_15', 'update', 'back', 'cus_returning', account => 'acc_erased'),
  'applied',
  'a record of another account is updated, even if the event names the erased one'
);

-- billing.customers names the account.
select pg_temp.deliver('listed_0', 'creation', 's_old', 'cus_listed', account => 'acc_erased_listed');
select billing.erase_account('acc_erased_listed', force => true);
insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_listed', 'acc_listed'), ('a', 'cus_listed_erased', 'acc_erased_listed');
select is(
  pg_temp.deliver('listed_1', 'creation', 's_new', 'cus_listed', account => ''),
  'applied',
  'a customer that was added after the erasure is not erased'
);
select is(
  (select account_id from billing.subscriptions where id = 's_new'),
  'acc_listed',
  'the record has the account of billing.customers'
);

select is(
  array[
    pg_temp.deliver('listed_2', 'creation', 's_3', 'cus_listed_erased', account => ''),
    billing.forget_erasure('account', 'acc_erased_listed'),
    pg_temp.deliver('listed_3', 'creation', 's_3', 'cus_listed_erased', account => '')
  ],
  array[
    'erased',
    'Its events have an effect again. Have the provider send them again, or run: '
      'deno task reconcile --apply',
    'applied'
  ],
  'a customer of the erased account is erased until that is forgotten'
);

-- Two accounts share a customer.
select
  pg_temp.deliver('left_0', 'creation', 't_old', 'cus_both', account => 'acc_erased_both'),
  pg_temp.store('left_1', 't_new', 'cus_both', 'acc_other'),
  pg_temp.store('left_2', 't_new', 'cus_both');
select matches(
  billing.erase_account('acc_erased_both', force => true),
  '^Erased: 1 subscriptions, 1 failed',
  'an erasure leaves failures that name another account'
);
select set_eq(
  $$
    select public.billing_is_erased(
      '[
        {
          "provider": "a",
          "kind": "creation",
          "subscription_id": "t_old",
          "account_id": "acc_other"
        },
        {"provider": "b", "kind": "creation", "subscription_id": "t_old"},
        {
          "provider": "a",
          "kind": "creation",
          "subscription_id": "t_1",
          "report": {"customer_id": "cus_both"}
        },
        {
          "provider": "a",
          "kind": "creation",
          "subscription_id": "t_2",
          "report": {"customer_id": "cus_both"},
          "account_id": "acc_other"
        },
        {
          "provider": "b",
          "kind": "creation",
          "subscription_id": "t_3",
          "account_id": "acc_erased_both"
        }
      ]'
    )
  $$,
  array['t_old', 't_1', 't_3'],
  'billing_is_erased tells which subscriptions are erased'
);

-- The fallback account, which the provider keeps with the customer, counts last.
create function pg_temp.kept(event_id text, customer_id text)
returns text language sql as $$
  select pg_temp.apply(
    pg_temp.event_of(event_id, 'opening_update', event_id, customer_id)
      || '{"fallback_account": "acc_kept"}'
  )
$$;

select is(
  pg_temp.kept('kept_1', 'cus_k1'),
  'applied',
  'a fallback account that is not erased is used'
);

update billing.subscriptions set status = 'canceled' where account_id = 'acc_kept';
select billing.erase_account('acc_kept');
select is(
  pg_temp.kept('kept_2', 'cus_k2'),
  'erased',
  'an erased fallback account counts for any customer'
);

insert into billing.customers (provider, customer_id, account_id) values ('a', 'cus_k3', 'acc_new');
select is(
  pg_temp.kept('kept_3', 'cus_k3'),
  'applied',
  'an account in billing.customers wins over an erased fallback account'
);

select is(
  pg_temp.store('k_failed' || i, 'k_new' || i, 'cus_k' || i, 'acc_kept', fields => '{
    "kind": "opening_update", "fallback_account": "acc_kept"
  }'),
  answer,
  format('a failure with an erased fallback account and customer %s is %s', i, answer)
)
from (values (3, 'stored'), (4, 'erased')) as f (i, answer);

-- Events in one call with the purchase of a customer who has come back.
create function pg_temp.together(variadic kinds text[])
returns text language sql as $$
  select pg_temp.deliver(
    kinds::text,
    'creation',
    kinds::text || 'old',
    'cus_' || kinds::text,
    account => 'acc_gone'
  );
  select
    billing.erase_account('acc_gone', force => true),
    billing.forget_erasure('account', 'acc_gone');
  select pg_temp.apply(variadic (
    select array_agg(
      pg_temp.event_of(kinds::text || k.place, k.kind, kinds::text, 'cus_' || kinds::text)
        || jsonb_build_object(
          'account_id', case when k.place = 1 and k.kind <> 'update' then 'acc_again' end,
          'occurred_at', to_timestamp(k.place)
        )
    )
    from unnest(kinds) with ordinality as k (kind, place)
  ))
$$;

select is(
  pg_temp.together('creation', 'update', 'payment_failed', 'deletion'),
  'applied, applied, applied, applied',
  'events after the purchase are applied without an account'
);
select is(
  pg_temp.together('opening_update', 'opening_update', 'deletion'),
  'applied, applied, applied',
  'so are events after an opening update'
);
select is(
  pg_temp.together('update', 'creation'),
  'erased, erased',
  'an update before the creation in one call erases both'
);

insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_known', 'acc_known');
select is(
  pg_temp.apply(
    pg_temp.event_of(customer || '_1', 'opening_update', customer, customer),
    pg_temp.event_of(customer || '_2', 'deletion', customer) || '{"named_account": "acc_erased"}'
  ),
  outcomes,
  format('a deletion that names the erased account, after an event of %s', customer)
)
from (
  values
    ('cus_known', 'applied, applied'),
    ('cus_unknown', 'failed BW005, erased')
) as c (customer, outcomes);

-- Both providers may have an event with the same ID.
select
  pg_temp.store('twin', null, body => '{"accountId": "acc_twin"}'),
  pg_temp.store('twin', null, fields => '{"provider": "b"}');
select billing.erase_account('acc_twin');
select results_eq(
  $$select provider from billing.failed_events where event_id = 'twin'$$,
  array['b'::text collate "C"],
  'only the failure that names the account is deleted'
);

select throws_like(
  'select billing.erase_account(null)',
  'Name the account: %',
  'erasing null is refused'
);

select * from finish();
rollback;
