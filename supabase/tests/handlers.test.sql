/*
 * The app's own handlers: billing.on_<type>. Each runs once, with its event or not at all,
 * and hurts nothing but its event.
 */
begin;
select plan(33);

create table public.tap_effects (place integer generated always as identity, effect text);
grant insert, select on public.tap_effects to service_role;

create function pg_temp.handle(type text, payload text default '{}', more jsonb default '{}')
returns text language sql as $$
  select concat_ws(' ', a.outcome, a.error_code, a.error)
  from public.billing_apply_handled_event(
    jsonb_build_object(
      'provider', 'a',
      'event_id', 'tap_' || type,
      'type', type,
      'kind', 'other',
      'report', '{}'::jsonb,
      'payload', payload
    ) || more
  ) as a
$$;

-- The effects since the last look, the newest last.
create function pg_temp.effects()
returns text language sql as $$
  with seen as (delete from public.tap_effects returning *)
  select string_agg(effect, ', ' order by place) from seen
$$;
grant delete on public.tap_effects to service_role;

create function pg_temp.handler(type text, body text)
returns void language plpgsql as $$
begin
  execute format(
    'create or replace function billing.%I(provider text, event jsonb) returns void '
      'language plpgsql as $_$ begin %s; end $_$',
    billing.handler_name(type), body
  );
end;
$$;

select pg_temp.handler(
  'order.paid',
  $$insert into tap_effects (effect) values (provider || ' ' || (event ->> 'n'))$$
);
set local role service_role;
select is(
  pg_temp.handle('order.paid', '{"n": 12345678901234567890.10}') || ': ' || pg_temp.effects(),
  'applied: a 12345678901234567890.10',
  'a handler runs with the provider and the event, to the last digit'
);
select ok(
  current_setting('response.headers') ~ 'billing-schema-version',
  'the answer says the version'
);
select pg_temp.handle('order.paid');
select is(pg_temp.effects(), null, 'a duplicate has no effect');
select is(
  (select type || ' ' || outcome from billing.processed_events where event_id = 'tap_order.paid'),
  'order.paid applied',
  'the ledger has an event with a handler'
);

-- How it runs.
reset role;
select pg_temp.handler(
  'settings',
  $$
    insert into tap_effects (effect)
    values
      (
        concat_ws(
          '; ',
          current_setting('search_path'),
          current_setting('lock_timeout'),
          current_setting('enable_seqscan'),
          current_setting('plan_cache_mode'),
          current_user
        )
      )
  $$
);
set local role service_role;
select is(
  pg_temp.handle('settings') || ': ' || pg_temp.effects(),
  'applied: public, extensions, pg_temp; 2s; on; auto; service_role',
  'a handler has the documented settings'
);

reset role;
select pg_temp.handler('vandal', $$
  set lock_timeout = '1ms';
  set search_path = nowhere;
  set timezone = 'Asia/Tokyo';
  set default_transaction_isolation = serializable;
  perform pg_advisory_lock(7);
  perform set_config('tap.own', '1', false);
  execute 'declare tap_left cursor with hold for select 1';
  set role authenticated
$$);
set local role service_role;
select is(pg_temp.handle('vandal'), 'applied', 'a handler may change settings and its role');
select is_empty(
  $$
    select name
    from pg_settings
    where name in ('lock_timeout', 'search_path', 'TimeZone', 'default_transaction_isolation')
      and setting is distinct from reset_val
  $$,
  'settings that a handler changes are restored'
);
select is(current_user::text, 'service_role', 'a role that a handler changes is restored');
select is(nullif(current_setting('tap.own'), ''), null, 'custom settings of a handler end with it');
select is_empty(
  $$
    select from pg_locks where locktype = 'advisory' and objid = 7
    union all
    select from pg_cursors where name = 'tap_left'
  $$,
  'so do its locks and cursors'
);

reset role;
create table public.tap_parents (id integer primary key);
create table public.tap_children (
  id integer references public.tap_parents deferrable initially deferred
);
select pg_temp.handler('child.first', $$
  insert into public.tap_children values (1);
  insert into public.tap_parents values (1)
$$);
grant all on public.tap_parents, public.tap_children to service_role;
set local role service_role;
-- As at the begin of a transaction.
set constraints all deferred;
select is(
  pg_temp.handle('child.first'),
  'applied',
  'deferred constraints are checked after the handler'
);

-- A handler that raises an error.
reset role;
select pg_temp.handler('raises', $$
  insert into public.tap_effects (effect) values ('undone');
  raise exception 'too much: %', event ->> 'n' using errcode = event ->> 'code'
$$);
set local role service_role;
select is(
  pg_temp.handle('raises', '{"n": 900, "code": "P0042"}'),
  'failed BW008 billing.on_raises raised P0042: too much: 900',
  'a handler that raises fails its event, by name'
);
-- Codes that mean something here, to PostgREST or to PL/pgSQL, and some others.
select is_empty(
  $$
    select code, said
    from string_to_table(
      '08006 20000 23505 25006 26000 40001 40P01 42501 42883 53300 55P03 57014 57P01 P0001 P0004 '
        'XX000 99999 BW000 BW001 BW004 BW005 BW006 BW007 PT200 PT418 PGRST', ' '
    ) as code,
      pg_temp.handle('raises', jsonb_build_object('n', 1, 'code', code)::text) as said
    where said <> format('failed BW008 billing.on_raises raised %s: too much: 1', code)
  $$,
  'whatever SQLSTATE a handler raises, it fails its event alone'
);
select is(pg_temp.effects(), null, 'it has no effect');
select is_empty(
  $$select from billing.processed_events where event_id = 'tap_raises'$$,
  'its event has no claim'
);

reset role;
select pg_temp.handler(
  'customer.subscription.created',
  $$
    insert into public.tap_effects (effect)
    select concat_ws(' ', s.plan_id, event ->> 'n')
    from billing.subscriptions s
    where s.id = event ->> 'id'; if event ? 'fails' then perform 1 / 0; end if
  $$
);

create function pg_temp.created(id text, second integer, payload jsonb)
returns text language sql as $$
  select pg_temp.handle(
    'customer.subscription.created',
    (payload || jsonb_build_object('id', id))::text,
    jsonb_build_object(
      'event_id', id || second,
      'kind', 'creation',
      'subscription_id', id,
      'occurred_at', to_timestamp(1800000000 + second),
      'account_id', payload ->> 'account',
      'report', jsonb_build_object('plan_id', 'plan_' || second, 'provider_status', 'active')
    )
  )
$$;
set local role service_role;
select is(
  pg_temp.created('tap_1', 5, '{"account": "acc", "fails": 1}'),
  'failed BW008 billing.on_customer_subscription_created raised 22012: division by zero',
  'a handler of a built-in type fails its event'
);
select is_empty(
  $$select from billing.subscriptions where id = 'tap_1'$$,
  'a failed handler undoes the built-in effect'
);

select pg_temp.created('tap_1', 5, '{"account": "acc", "n": 1}');

select is(
  pg_temp.created('tap_1', 3, '{"account": "acc", "n": 2}'),
  'stale',
  'a handler runs for a stale event'
);

select is(
  pg_temp.created('tap_2', 5, '{"n": 3}'),
  'failed BW005 No account is known.',
  'a handler does not run for an event that fails by itself'
);
select is(pg_temp.effects(), 'plan_5 1, plan_5 2', 'a handler runs after the built-in effect');

reset role;

create function pg_temp.refuse() returns trigger language plpgsql as $$ begin raise 'late'; end $$;
create constraint trigger tap_late after insert on billing.processed_events
deferrable initially deferred for each row when (new.event_id = 'tap_late5') execute function pg_temp.refuse();
set local role service_role;
set constraints all deferred;
select is(
  pg_temp.created('tap_late', 5, '{}'),
  'failed P0001 late',
  'deferred errors fail an event whose handler does not run'
);

-- A handler that is missing.
select is(
  pg_temp.handle('charge.refunded'),
  'failed BW007 billing.on_charge_refunded is not there: '
    'create function billing.on_charge_refunded(provider text, event jsonb) returns void.',
  'a handler that is missing is named'
);
select is_empty(
  $$select from billing.processed_events where event_id = 'tap_charge.refunded'$$,
  'an event without its handler has no claim'
);

reset role;

create function billing.on_charge_refunded(event jsonb) returns void language sql as '';
set local role service_role;
select matches(
  pg_temp.handle('charge.refunded'),
  '^failed BW007 billing.on_charge_refunded has other arguments',
  'a handler with other arguments is named'
);

reset role;
select pg_temp.handler('charge.refunded', 'null');
revoke execute on function billing.on_charge_refunded(text, jsonb) from public;
set local role service_role;
select is(
  pg_temp.handle('charge.refunded'),
  'failed BW007 service_role may not execute it: '
    'grant execute on function billing.on_charge_refunded to service_role;',
  'a handler that may not be called is named'
);

reset role;
create temporary table bodies (type text, body text);
insert into bodies values
  ('deallocates_1', $$execute 'DEALLOCATE all'$$),
  ('deallocates_2', $$null; /* it's -- */ deallocate prepare all$$),
  ('deallocates_3', $$if true then -- 'x'
    deallocate x; end if$$),
  ('deallocates_4', $$execute format('deallocate %I', 'x')$$),
  ('deallocates_5', $$execute ('deallocate ' || 'x')$$),
  ('mentions_1', $$insert into tap_effects (effect) values ('deallocated')$$),
  ('mentions_2', $$-- never; deallocate all;
    null$$),
  ('mentions_3', $$/* ; DEALLOCATE all;
    ** else deallocate all; */ null$$),
  ('mentions_4', $$raise log 'deallocate seats'; raise log 'it''s over; deallocate seats;'$$),
  ('mentions_5', $$execute 'select ''; deallocate seats;'''$$),
  ('mentions_6', $$perform deallocate from (values (1)) as v (deallocate)$$),
  ('mentions_7', $$declare deallocate int; begin deallocate := 1; end$$),
  ('mentions_8', $$declare deallocate int; n int;
    begin n := case when n > 0 then 1 else deallocate end; end$$);
select pg_temp.handler(type, body) from bodies;
grant select on bodies to service_role;
set local role service_role;
select results_eq(
  $$select pg_temp.handle(type) from bodies where type like 'dealloc%' order by type$$,
  $$
    select 'failed BW008 billing.on_deallocates_'
      || n
      || ' contains deallocate, which would break a connection that it shares: remove it.'
    from generate_series(1, 5) as n
  $$,
  'a handler that would break its connection is not run'
);
select is_empty(
  $$
    select *
    from bodies, pg_temp.handle(type) as said
    where type like 'mention%' and said <> 'applied'
  $$,
  'a handler may contain the word deallocate'
);

delete from public.tap_effects;

select matches(
  pg_temp.handle('order.paid', '{"n": "\u0000"}', '{"event_id": "tap_nul"}'),
  '^failed BW009 jsonb cannot hold the event: ',
  'an event that jsonb cannot hold fails'
);

reset role;
insert into billing.erasures (hash)
select sha256(key || 'a:cus_erased')
from billing.erasure_key
union
select sha256(key || 'a:sub_erased')
from billing.erasure_key;
set local role service_role;
select is(
  pg_temp.handle('order.paid', '{"n": 1}', '{
    "event_id": "tap_e",
    "report": {"customer_id": "cus_erased"}
  }'),
  'erased',
  'no handler runs for an erased customer'
);

select is(
  pg_temp.handle('order.paid', '{"n": 1}', '{
    "event_id": "tap_e2",
    "report": {"subscription_id": "sub_erased"}
  }'),
  'erased',
  'no handler runs for an erased subscription'
);

select is(t.outcome, 'applied', 'a rehearsal runs the handler')
from public.billing_try_event(
  '{
    "provider": "a",
    "event_id": "tap_try",
    "type": "order.paid",
    "kind": "other",
    "payload": "{\"n\": 1}"
  }'
) as t;
select is(
  t.error,
  'billing.on_raises raised P0001: too much: 2',
  'a rehearsal says what the handler raises'
)
from public.billing_try_event(
  '{
    "provider": "a",
    "event_id": "tap_try",
    "type": "raises",
    "kind": "other",
    "payload": "{\"n\": 2, \"code\": \"P0001\"}"
  }'
) as t;
select is(pg_temp.effects(), null, 'a rehearsal has no effect');

select * from finish();
rollback;
