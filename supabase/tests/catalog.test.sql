/*
 * What the catalog shows: names, types, comments, what functions declare about themselves; and
 * what the tables refuse, by any writer.
 */
begin;
select plan(40);
set local timezone = 'UTC';

create temporary view relations as
select c.oid, c.relname, c.relkind, c.relnamespace::regnamespace::text as schema
from pg_class c
where c.relkind in ('r', 'v') and (c.relnamespace = 'billing'::regnamespace or c.relnamespace = 'public'::regnamespace and c.relname ~ '^billing_');
create temporary view functions as
select p.*, p.oid::regprocedure::text as signature, p.pronamespace::regnamespace::text as schema
from pg_proc p
where p.pronamespace = 'billing'::regnamespace or p.pronamespace = 'public'::regnamespace and p.proname ~ '^billing_';

-- Names and types.
select is_empty(
  $$
    select pg_describe_object(o.classid, o.oid, 0)
    from (
      select 'pg_class'::regclass as classid, oid, relname as name, relnamespace as schema, relowner as owner from pg_class
      union all select 'pg_proc'::regclass, oid, proname, pronamespace, proowner from pg_proc
      union all select 'pg_type'::regclass, oid, ltrim(typname, '_'), typnamespace, typowner from pg_type
    ) as o
    where o.schema = 'public'::regnamespace and o.name !~ '^billing_'
      and not exists (select from pg_depend d where d.classid = o.classid and d.objid = o.oid and d.deptype = 'e')
  $$, 'every name in public begins with billing_'
);
select is_empty($$select relname from relations where schema = 'public' and relkind <> 'v'$$, 'and is a window or a function');
select is_empty(
  $$
    select f.signature, t.type::regtype
    from functions f, lateral (select f.prorettype as type union select unnest(coalesce(f.proallargtypes, f.proargtypes::oid[]))) as t
    where f.schema = 'public' and (select y.typnamespace from pg_type y where y.oid = t.type) <> 'pg_catalog'::regnamespace
  $$, 'functions in public take and return built-in types'
);
select is_empty($$select signature from functions where schema = 'public' and (prosqlbody is not null or prosecdef)$$,
  'they check usage of schema billing when they run, so none has a parsed body'
);
select is_empty($$select proname from functions group by schema, proname having count(*) > 1$$, 'no name is overloaded, since PostgREST cannot tell such functions apart');
select is_empty(
  $$
    select r.relname, a.attname from relations r join pg_attribute a on a.attrelid = r.oid
    where r.schema = 'billing' and r.relkind = 'r' and a.attname in ('id', 'provider', 'event_id', 'account_id', 'subscription_id', 'customer_id', 'plan_id', 'invoice_id')
      and a.atttypid = 'text'::regtype and a.attcollation <> (select oid from pg_collation where collname = 'C')
  $$, 'every ID has the collation C'
);
select is_empty(
  $$select r.relname, a.attname from relations r join pg_attribute a on a.attrelid = r.oid where a.atttypid = 'timestamp'::regtype$$, 'every time has a time zone'
);

-- Functions.
select is_empty(
  $$
    select signature from functions
    where 'search_path=""' <> all (coalesce(proconfig, '{}')) and prokind = 'f'
      -- Pure: they read no table, and what has a parsed body cannot be redirected.
      and signature not in ('billing.opens(billing.event)', 'billing.handler_name(text)', 'billing.runs_deallocate(text)', 'billing.account_lock(text)', 'billing.customer_hash(text,text)', 'billing.customer_lock(text,text)', 'billing.lock_patience()', 'billing.mark(billing.event)', 'billing.time_of(bigint)', 'billing.earliest(timestamp with time zone,timestamp with time zone,boolean,timestamp with time zone,timestamp with time zone,timestamp with time zone)', 'billing.next(billing.step,billing.records,billing.event)',
        -- As documented, for the app's handlers.
        'billing.run_handler(billing.event,jsonb)')
  $$, 'every function fixes an empty search_path, but the pure ones'
);
select is_empty(
  $$select signature from functions where proconfig::text ~ 'enable_' and 'jit=off' <> all (proconfig)$$,
  'what makes plans look expensive keeps Postgres from compiling them'
);
select set_eq(
  $$select proname::text, provolatile::text from functions where provolatile <> 'v' and prokind = 'f'$$,
  $$values
    -- They read tables.
    ('account_email', 's'), ('account_of_customer', 's'), ('erasure_of', 's'), ('billing_is_erased', 's'), ('ids_of', 's'), ('has_request', 's'), ('handlers', 's'),
    ('billing_account_email', 's'), ('billing_account_of_customer', 's'), ('billing_has_access', 's'), ('billing_has_feature', 's'), ('billing_feature_amount', 's'),
    -- They compute; times in text depend on the time zone.
    ('mark', 's'), ('next', 's'), ('next_retry', 's'), ('settle', 's'), ('as_stored', 's'),
    ('account_lock', 'i'), ('customer_hash', 'i'), ('opens', 'i'), ('handler_name', 'i'), ('runs_deallocate', 'i'), ('customer_lock', 'i'), ('time_of', 'i'), ('earliest', 'i'), ('notification_waits', 'i'), ('has_long_number', 'i')$$,
  'every function is volatile, since it writes or locks, but those that only read'
);
select set_eq(
  $$select proname::text, s.setting from functions, unnest(proconfig) as s (setting) where s.setting ~ 'timeout'$$,
  $$values ('billing_apply_events', 'lock_timeout=500ms'), 
    ('billing_apply_handled_event', 'lock_timeout=500ms'), ('run_handler', 'lock_timeout=2s'),
    ('billing_apply_handled_event', 'statement_timeout=2500ms'), ('billing_try_event', 'statement_timeout=2500ms'), ('billing_record_failed_event', 'lock_timeout=500ms'), ('billing_settle_failed_events', 'lock_timeout=20ms'),
    ('erase_account', 'lock_timeout=20ms'), ('wake_worker', 'lock_timeout=100ms')$$,
  'how long functions wait for locks, below the time limits of their callers'
);

select is_empty($$select relname from relations where schema = 'billing' and obj_description(oid, 'pg_class') is null$$, 'what people look at has a comment');

-- What the tables refuse. Each row differs from a good one in one value.
create function pg_temp.put(table_name text, change jsonb)
returns text language plpgsql as $$
declare
  good constant jsonb := '{
    "subscriptions": {"id": "tap", "provider": "a", "account_id": "acc_1", "status": "active", "plan_id": "plan_1"},
    "processed_events": {"provider": "a", "event_id": "tap", "type": "x", "outcome": "applied", "processed_at": "2027-01-01T00:00:00Z"},
    "failed_events": {
      "scheduled_retries": 0, "provider": "a", "event_id": "tap", "payload": {}, "payload_encoding": "json", "error_code": "x", "error": "x", "attempts": 1,
      "first_failed_at": "2027-01-01T00:00:00Z", "last_failed_at": "2027-01-01T00:00:00Z"
    },
    "notifications": {
      "provider": "a", "event_id": "tap", "kind": "payment_failed", "status": "pending",
      "account_id": "acc_1", "subscription_id": "sub_1", "attempts": 0, "created_at": "2027-01-01T00:00:00Z", "next_attempt_at": "2027-01-01T00:00:00Z"
    }
  }';
begin
  begin
    execute format(
      'insert into billing.%1$I (%2$s) select %2$s from jsonb_populate_record(null::billing.%1$I, $1)', table_name,
      (select string_agg(quote_ident(c), ', ') from jsonb_object_keys(good -> table_name || change) as c)
    ) using good -> table_name || change;
    raise exception 'It was taken.' using errcode = 'ZZ000';
  end;
exception
  when sqlstate 'ZZ000' then
    return 'taken';
  when others then
    return sqlstate;
end;
$$;

-- Characters of two bytes: the limits are in characters.
select is(pg_temp.put('subscriptions', jsonb_build_object(c, '')), '23514', format('subscriptions refuses an empty %s', c))
from unnest(array['id', 'provider', 'account_id', 'status', 'plan_id']) as c;
select is(pg_temp.put('subscriptions', jsonb_build_object(c, repeat('ü', 256))), '23514', format('subscriptions refuses 256 characters as %s', c))
from unnest(array['id', 'account_id', 'status', 'plan_id']) as c;
select is(pg_temp.put('subscriptions', jsonb_build_object(c, null)), '23502', format('subscriptions refuses a row without %s', c))
from unnest(array['provider', 'account_id', 'status', 'plan_id']) as c;
select is(pg_temp.put(t.name, t.change), t.answer, format('%s: %s', t.name, t.what))
from (
  values
    ('subscriptions', jsonb_build_object('id', repeat('ü', 255), 'account_id', repeat('ü', 255), 'status', repeat('ü', 255), 'plan_id', repeat('ü', 255)),
      'taken', '255 characters, and any status'),
    ('subscriptions', '{"provider_status": "on_hold", "paused": "for_ever", "quantity": -1}', 'taken', 'whatever a provider reports'),
    ('subscriptions', '{"items": {}}', '23514', 'items that are no list'),
    ('processed_events', '{"outcome": "failed"}', '23514', 'an event that failed'),
    ('failed_events', '{"attempts": 0}', '23514', 'an event that never failed'),
    ('failed_events', '{"resolved_at": "2027-01-02T00:00:00Z"}', '23514', 'resolved without a resolution'),
    ('failed_events', '{"resolution": "applied"}', '23514', 'a resolution of an open row'),
    ('failed_events', '{"resolved_at": "2027-01-02T00:00:00Z", "resolution": "failed"}', '23514', 'an unknown resolution'),
    ('failed_events', '{"resolved_at": "2027-01-02T00:00:00Z", "resolution": "by hand", "type": null}', 'taken', 'resolved by hand'),
    ('notifications', '{"status": "delivered"}', '23514', 'an unknown status'),
    ('notifications', '{"kind": "failure_opened"}', '23514', 'an unknown kind'),
    ('notifications', '{"attempts": -1}', '23514', 'a negative number of attempts'),
    ('notifications', '{"status": "undeliverable", "invoice_id": null}', 'taken', 'undeliverable')
) as t (name, change, answer, what);
insert into billing.subscriptions (id, provider, account_id, status, plan_id) values ('tap', 'a', 'acc_1', 'active', 'plan_1');
select is(pg_temp.put('subscriptions', '{"provider": "b"}'), '23505', 'two providers cannot have a subscription with the same id');
insert into billing.processed_events (provider, event_id, type) values ('a', 'tap', 'x');
select is(pg_temp.put('processed_events', '{"provider": "b"}'), 'taken', 'but an event');
select * from finish();
rollback;
