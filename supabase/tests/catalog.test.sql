/*
 * What a reader of the database finds: comments, and what each function
 * declares about itself. Read from the catalog, as in privileges.test.sql.
 */
begin;
select plan(8);

create temporary view our_tables as
select c.oid, c.relname, c.relkind
from pg_class c
where c.relnamespace = 'public'::regnamespace
  and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and not exists (
    select from pg_depend d
    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
  );

create temporary view our_functions as
select p.oid, p.oid::regprocedure::text as signature, p.proname, p.provolatile, p.proconfig
from pg_proc p
where p.pronamespace = 'public'::regnamespace
  and not exists (
    select from pg_depend d
    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  );

select set_has(
  'select relname::text from our_tables',
  $$values
    ('subscriptions'), ('processed_events'), ('failed_events'), ('notifications'),
    ('open_failures'), ('billing_events_per_hour'), ('billing_health')$$,
  'the tables and views of the design are among those that are looked at'
);
select set_has(
  'select proname::text from our_functions',
  $$values ('apply_billing_events'), ('record_failed_event')$$,
  'the functions of the design are among those that are looked at'
);

select is_empty(
  $$select relname from our_tables
    where coalesce(obj_description(oid, 'pg_class'), '') = ''$$,
  'every table and every view has a comment'
);
select is_empty(
  $$select signature from our_functions
    where coalesce(obj_description(oid, 'pg_proc'), '') = ''$$,
  'every function has a comment'
);
select is_empty(
  $$select t.relname, c.attname
    from our_tables t
    join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped
    where t.relkind <> 'v' and coalesce(col_description(t.oid, c.attnum), '') = ''
      and (t.relname, c.attname) not in (
        values
          ('subscriptions', 'current_period_end'),
          ('processed_events', 'provider'),
          ('processed_events', 'event_id'),
          ('processed_events', 'type'),
          ('processed_events', 'processed_at'),
          ('failed_events', 'provider'),
          ('failed_events', 'first_failed_at'),
          ('failed_events', 'last_failed_at'),
          ('notifications', 'provider'),
          ('notifications', 'subscription_id'),
          ('notifications', 'created_at'),
          ('notifications', 'sent_at')
      )$$,
  'every column of a table has a comment, except those whose name says it all'
);

select set_eq(
  $$select signature, provolatile::text from our_functions where provolatile <> 'v'$$,
  $$values
    -- It reads auth.users, and nothing else.
    ('account_email(text)', 's'),
    -- They read subscriptions, and nothing else.
    ('account_of_customer(text,text)', 's'),
    ('has_access(text,interval)', 's'),
    -- A list that is written out.
    ('notification_waits()', 'i'),
    -- They compute, and touch no table.
    ('merge_update(jsonb,jsonb,jsonb,jsonb)', 'i'),
    ('has_long_number(jsonb)', 'i'),
    -- A number, and a table, that are written out.
    ('billing_version()', 'i'),
    ('billing_rights()', 'i'),
    -- It reads the catalog.
    ('excess_billing_rights()', 's')$$,
  'every function is volatile, since it writes or locks, except those that only read'
);

-- How long a call waits for a lock before it gives up, below the time limits
-- of the callers.
select ok(
  (select proconfig @> array['lock_timeout=1s'] from our_functions
    where proname = 'apply_billing_events'),
  'apply_billing_events waits one second for a lock'
);
select ok(
  (select proconfig @> array['lock_timeout=500ms'] from our_functions
    where proname = 'record_failed_event'),
  'record_failed_event waits half a second for a lock, since a delivery may wait for it'
);

select * from finish();
rollback;
