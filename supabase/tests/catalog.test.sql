/*
 * What the catalog shows: names, types, comments, what functions declare about themselves; and
 * what the tables refuse, by any writer.
 */
begin;
select plan(40);

-- Names and types.
select is_empty(
  $$
    select pg_describe_object(o.classid, o.oid, 0)
    from (
      select 'pg_class'::regclass as classid, oid, relname as name, relnamespace as schema
      from pg_class
      union all
      select 'pg_proc'::regclass, oid, proname, pronamespace from pg_proc
      union all
      select 'pg_type'::regclass, oid, ltrim(typname, '_'), typnamespace from pg_type
    ) as o
    where o.schema = 'public'::regnamespace
      and o.name !~ '^billing_'
      and not exists (
        select
        from pg_depend d
        where d.classid = o.classid and d.objid = o.oid and d.deptype = 'e'
      )
  $$,
  'every name in public begins with billing_'
);
select is_empty(
  $$select relname from relations where schema = 'public' and relkind <> 'v'$$,
  'every relation in public is a view'
);
select is_empty(
  $$
    select f.signature, t.type::regtype
    from functions f,
      lateral (
        select f.prorettype as type
        union
        select unnest(coalesce(f.proallargtypes, f.proargtypes::oid[]))
      ) as t
    where f.schema = 'public'
      and (select y.typnamespace from pg_type y where y.oid = t.type) <> 'pg_catalog'::regnamespace
  $$,
  'functions in public take and return built-in types'
);
select is_empty(
  $$
    select signature
    from functions
    where schema = 'public' and (prosqlbody is not null or prosecdef)
  $$,
  'functions in public check usage of schema billing when they run: none has a parsed body'
);
select is_empty(
  $$select proname from functions group by schema, proname having count(*) > 1$$,
  'no name is overloaded, since PostgREST cannot tell such functions apart'
);
select is_empty(
  $$
    select r.relname, a.attname
    from relations r
    join pg_attribute a on a.attrelid = r.oid
    where r.schema = 'billing'
      and r.relkind = 'r'
      and a.attname in (
        'id',
        'provider',
        'event_id',
        'account_id',
        'subscription_id',
        'customer_id',
        'plan_id',
        'invoice_id'
      )
      and a.atttypid = 'text'::regtype
      and a.attcollation <> (select oid from pg_collation where collname = 'C')
  $$,
  'every ID has the collation C'
);
select is_empty(
  $$
    select r.relname, a.attname
    from relations r
    join pg_attribute a on a.attrelid = r.oid
    where a.atttypid = 'timestamp'::regtype
  $$,
  'every time has a time zone'
);

-- Settings of functions.
select set_eq(
  $$
    select schema || '.' || proname
    from functions
    where 'search_path=""' <> all (coalesce(proconfig, '{}')) and prokind = 'f'
  $$,
  $$
    values
      -- They are pure: they read no table, and what has a parsed body cannot be redirected.
      ('billing.account_lock'),
      ('billing.customer_erasure_lock'),
      ('billing.customer_group_lock'),
      ('billing.earliest'),
      ('billing.handler_name'),
      ('billing.has_long_number'),
      ('billing.is_update'),
      ('billing.lock_patience'),
      ('billing.mark'),
      ('billing.next'),
      ('billing.next_retry'),
      ('billing.notification_waits'),
      ('billing.opens'),
      ('billing.recovered'),
      ('billing.runs_deallocate'),
      ('billing.schema_version'),
      ('billing.subscription_lock'),
      ('billing.tell_version'),
      ('billing.time_of'),
      -- run_handler sets the one that is documented for the app's handlers.
      ('billing.run_handler')
  $$,
  'every function but these fixes an empty search_path'
);
select is_empty(
  $$
    select signature
    from functions
    where proconfig::text ~ 'enable_' and 'jit=off' <> all (proconfig)
  $$,
  'functions that switch off kinds of plans switch off compiling too: such plans look expensive'
);
select set_eq(
  $$select proname::text from functions where provolatile = 'i' and prokind = 'f'$$,
  array[
    'account_lock',
    'customer_erasure_lock',
    'customer_group_lock',
    'earliest',
    'handler_name',
    'has_long_number',
    'is_update',
    'notification_waits',
    'opens',
    'recovered',
    'runs_deallocate',
    'subscription_lock',
    'time_of'
  ],
  'only these are immutable: they read no table, and no time in text, which depends on the time zone'
);
select set_eq(
  $$
    select proname::text, s.setting
    from functions, unnest(proconfig) as s (setting)
    where s.setting ~ 'timeout'
  $$,
  $$
    values
      ('billing_apply_events', 'lock_timeout=500ms'),
      ('billing_apply_handled_event', 'lock_timeout=500ms'),
      ('billing_apply_handled_event', 'statement_timeout=2500ms'),
      ('billing_record_failed_event', 'lock_timeout=500ms'),
      ('billing_settle_failed_events', 'lock_timeout=20ms'),
      ('billing_try_event', 'statement_timeout=2500ms'),
      ('erase_account', 'lock_timeout=20ms'),
      ('run_handler', 'lock_timeout=2s'),
      ('wake_worker', 'lock_timeout=100ms')
  $$,
  'functions wait for locks only this long, below the time limits of their callers'
);

-- Comments.
select is_empty(
  $$
    select relname
    from relations
    where schema = 'billing' and obj_description(oid, 'pg_class') is null
  $$,
  'every table and view has a comment'
);

-- Constraints of the tables. Returns 'taken', or the error, for a good row with a change.
create function pg_temp.put(table_name text, change jsonb)
returns text language plpgsql as $$
declare
  good constant jsonb := '{
    "subscriptions": {
      "id": "tap", "provider": "a", "account_id": "acc_1", "status": "active", "plan_id": "plan_1"
    },
    "processed_events": {
      "provider": "a", "event_id": "tap", "type": "x", "outcome": "applied"
    },
    "failed_events": {
      "provider": "a", "event_id": "tap", "payload": {}, "payload_encoding": "json",
      "error_code": "x", "error": "x"
    },
    "notifications": {
      "provider": "a", "event_id": "tap", "account_id": "acc_1", "subscription_id": "sub_1"
    }
  }';
begin
  perform pg_temp.add(table_name, good -> table_name || change);

  raise exception 'It was taken.' using errcode = 'ZZ000';
exception
  when sqlstate 'ZZ000' then
    return 'taken';
  when others then
    return sqlstate;
end;
$$;

-- The limits are in characters; these have two bytes.
select is(
  pg_temp.put('subscriptions', jsonb_build_object(c, '')),
  '23514',
  format('subscriptions refuses an empty %s', c)
)
from unnest(array['id', 'provider', 'account_id', 'status', 'plan_id']) as c;

select is(
  pg_temp.put('subscriptions', jsonb_build_object(c, repeat('ü', 256))),
  '23514',
  format('subscriptions refuses 256 characters as %s', c)
)
from unnest(array['id', 'account_id', 'status', 'plan_id']) as c;

select is(
  pg_temp.put('subscriptions', jsonb_build_object(c, null)),
  '23502',
  format('subscriptions refuses a row without %s', c)
)
from unnest(array['provider', 'account_id', 'status', 'plan_id']) as c;
select is(pg_temp.put(t.name, t.change), t.answer, format('%s: %s', t.name, t.what))
from (
  values
    (
      'subscriptions',
      (
        select jsonb_object_agg(c, repeat('ü', 255))
        from unnest(array['id', 'account_id', 'status', 'plan_id']) as c
      ),
      'taken',
      'it takes 255 characters, and any status'
    ),
    ('subscriptions', '{"provider_status": "on_hold", "paused": "for_ever", "quantity": -1}', 'taken',
      'it takes whatever a provider reports'),
    ('subscriptions', '{"items": {}}', '23514', 'it refuses items that are no list'),
    ('processed_events', '{"outcome": "failed"}', '23514', 'it refuses an event that failed'),
    ('failed_events', '{"attempts": 0}', '23514', 'it refuses an event that never failed'),
    ('failed_events', '{"resolved_at": "2027-01-02Z"}', '23514', 'a resolved row needs a resolution'),
    ('failed_events', '{"resolution": "applied"}', '23514', 'an open row has no resolution'),
    ('failed_events', '{"resolved_at": "2027-01-02Z", "resolution": "failed"}', '23514',
      'it refuses an unknown resolution'),
    ('failed_events', '{"resolved_at": "2027-01-02Z", "resolution": "by hand", "type": null}', 'taken',
      'it takes a row that is resolved by hand'),
    ('notifications', '{"status": "delivered"}', '23514', 'it refuses an unknown status'),
    ('notifications', '{"kind": "failure_opened"}', '23514', 'it refuses an unknown kind'),
    ('notifications', '{"attempts": -1}', '23514', 'it refuses a negative number of attempts'),
    ('notifications', '{"status": "undeliverable", "invoice_id": null}', 'taken', 'it takes one that is undeliverable')
) as t (name, change, answer, what);

-- Subscriptions of both providers share their ids; events do not.
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values ('tap', 'a', 'acc_1', 'active', 'plan_1');
select is(
  pg_temp.put('subscriptions', '{"provider": "b"}'),
  '23505',
  'two providers cannot have a subscription with the same id'
);

insert into billing.processed_events (provider, event_id, type) values ('a', 'tap', 'x');
select is(
  pg_temp.put('processed_events', '{"provider": "b"}'),
  'taken',
  'two providers may have an event with the same id'
);

select * from finish();
rollback;
