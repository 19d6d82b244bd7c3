/*
 * Who may do what, read from the catalog: a table or function that a later
 * migration adds is held to the same rules without being named here.
 */
begin;
select plan(28);

create temporary view our_relations as
select c.oid, c.relname, c.relkind, c.relacl, c.relrowsecurity
from pg_class c
where c.relnamespace = 'public'::regnamespace
  and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and not exists (
    select from pg_depend d
    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
  );

create temporary view our_functions as
select
  p.oid, p.oid::regprocedure::text as signature, p.proname, p.prokind, p.prosecdef, p.proconfig,
  p.prorettype, p.proargtypes, coalesce(p.proacl, acldefault('f', p.proowner)) as acl
from pg_proc p
where p.pronamespace = 'public'::regnamespace
  and not exists (
    select from pg_depend d
    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  );

create temporary view outsiders as
select r.rolname from pg_roles r where r.rolname in ('anon', 'authenticated');

-- Runs a statement as a role. True where the role lacks the privilege; row
-- level security, which fails with the same code, does not count.
create function pg_temp.is_denied(p_role name, p_statement text)
returns boolean
language plpgsql
as $$
declare
  refusal text;
begin
  begin
    execute format('set local role %I', p_role);
    execute p_statement;
    -- Undoes the statement and the role.
    raise exception 'The statement ran.' using errcode = 'ZZ000';
  exception
    when sqlstate 'ZZ000' then
      return false;
    when insufficient_privilege then
      get stacked diagnostics refusal = message_text;
      return refusal like 'permission denied for %';
  end;
end;
$$;

-- Without these the rules below would pass on an empty schema.
select set_has(
  'select relname::text from our_relations',
  $$values ('subscriptions'), ('processed_events'), ('failed_events'), ('notifications')$$,
  'the tables of the design are among those that are looked at'
);
select set_has(
  'select proname::text from our_functions',
  $$values ('apply_billing_events'), ('record_failed_event')$$,
  'the functions of the design are among those that are looked at'
);
select is(
  (select count(*)::int from outsiders), 2,
  'the roles anon and authenticated are there to be shut out'
);

-- Tables, views and sequences.

select is_empty(
  $$select relname from our_relations where relkind in ('r', 'p') and not relrowsecurity$$,
  'row level security is enabled on every table'
);
select is_empty(
  $$select tablename, policyname from pg_policies where schemaname = 'public'$$,
  'no table has a policy'
);
select is_empty(
  $$select r.relname, a.privilege_type, a.grantee
    from our_relations r, aclexplode(r.relacl) a
    where a.grantee = 0 or a.grantee in (select rolname::regrole from outsiders)$$,
  'no privilege on any table, view or sequence is granted to PUBLIC, anon or authenticated'
);
select is_empty(
  $$select r.relname, c.attname, a.privilege_type, a.grantee
    from our_relations r
    join pg_attribute c on c.attrelid = r.oid, aclexplode(c.attacl) a
    where a.grantee = 0 or a.grantee in (select rolname::regrole from outsiders)$$,
  'no privilege on any single column is granted to PUBLIC, anon or authenticated'
);
select is_empty(
  $$select o.rolname, r.relname, p.privilege
    from outsiders o, our_relations r,
      unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as p (privilege)
    where r.relkind <> 'S' and has_table_privilege(o.rolname, r.oid, p.privilege)$$,
  'neither anon nor authenticated comes by a table privilege in any other way'
);
select is_empty(
  $$select o.rolname, r.relname, p.privilege
    from outsiders o, our_relations r, unnest(array['usage', 'select', 'update']) as p (privilege)
    where r.relkind = 'S' and has_sequence_privilege(o.rolname, r.oid, p.privilege)$$,
  'neither anon nor authenticated may use a sequence'
);
select is_empty(
  $$select o.rolname, s.statement
    from outsiders o, our_relations r,
      format('select from public.%I', r.relname) as s (statement)
    where r.relkind <> 'S' and not pg_temp.is_denied(o.rolname, s.statement)$$,
  'select as anon or authenticated raises 42501 on every table'
);
select is_empty(
  $$select o.rolname, s.statement
    from outsiders o, our_relations r,
      format('insert into public.%I default values', r.relname) as s (statement)
    where r.relkind in ('r', 'p') and not pg_temp.is_denied(o.rolname, s.statement)$$,
  'insert as anon or authenticated raises 42501 on every table'
);
select is_empty(
  $$select o.rolname, s.statement
    from outsiders o, our_relations r
      join pg_attribute c on c.attrelid = r.oid and c.attnum = 1,
      format('update public.%I set %I = null', r.relname, c.attname) as s (statement)
    where r.relkind in ('r', 'p') and not pg_temp.is_denied(o.rolname, s.statement)$$,
  'update as anon or authenticated raises 42501 on every table'
);
select is_empty(
  $$select o.rolname, s.statement
    from outsiders o, our_relations r,
      unnest(array['delete from public.%I', 'truncate public.%I']) as t (template),
      format(t.template, r.relname) as s (statement)
    where r.relkind in ('r', 'p') and not pg_temp.is_denied(o.rolname, s.statement)$$,
  'delete and truncate as anon or authenticated raise 42501 on every table'
);
select set_eq(
  $$select r.relname::text, string_agg(lower(a.privilege_type), ', ' order by a.privilege_type)
    from our_relations r, aclexplode(r.relacl) a
    where a.grantee = 'service_role'::regrole
    group by r.relname$$,
  $$values
    ('billing_events_per_hour', 'select'),
    ('billing_health', 'select'),
    ('failed_events', 'insert, select, update'),
    ('failure_alerts', 'insert, select, update'),
    ('notification_pace', 'insert, select, update'),
    ('notifications', 'insert, select, update'),
    ('open_failures', 'select'),
    ('processed_events', 'delete, insert, select, update'),
    ('subscriptions', 'insert, select, update')$$,
  'service_role has the table privileges that the migrations grant, and no other'
);
select is_empty(
  $$select s.statement
    from our_relations r, format('truncate public.%I', r.relname) as s (statement)
    where r.relkind in ('r', 'p') and not pg_temp.is_denied('service_role', s.statement)$$,
  'truncate as service_role raises 42501 on every table'
);

-- Functions.

select is_empty(
  $$select f.signature, a.grantee
    from our_functions f, aclexplode(f.acl) a
    where a.grantee = 0 or a.grantee in (select rolname::regrole from outsiders)$$,
  'execute is granted to PUBLIC, anon or authenticated on no function'
);
select is_empty(
  $$select o.rolname, f.signature
    from outsiders o, our_functions f
    where has_function_privilege(o.rolname, f.oid, 'execute')$$,
  'neither anon nor authenticated comes by execute in any other way'
);
select is_empty(
  $$select o.rolname, s.statement
    from outsiders o, our_functions f,
      lateral (
        select coalesce(string_agg(format('null::%s', format_type(t.type, null)), ', '), '')
        from unnest(f.proargtypes) as t (type)
      ) as a (arguments),
      format('select from public.%I(%s)', f.proname, a.arguments) as s (statement)
    where f.prokind = 'f' and f.prorettype <> 'trigger'::regtype
      and not pg_temp.is_denied(o.rolname, s.statement)$$,
  'a call as anon or authenticated raises 42501 for every function'
);
select is_empty(
  $$select signature from our_functions
    where prorettype <> 'trigger'::regtype
      and not has_function_privilege('service_role', oid, 'execute')
      -- Exceptions: the owner runs these, in the SQL editor and from pg_cron.
      and signature not in (
        'schedule_billing_worker(text,text)', 'unschedule_billing_worker()',
        'prune_billing_tables(interval,interval,interval,integer)',
        'revoke_billing_rights()'
      )$$,
  'service_role may execute every function that the receiver, the worker or the console calls'
);
select set_eq(
  $$select signature from our_functions where prosecdef$$,
  $$values
    -- service_role may not read auth.users itself.
    ('account_email(text)')$$,
  'no function is security definer, except the one that has a reason'
);
select is_empty(
  $$select signature from our_functions
    where 'search_path=""' <> all (coalesce(proconfig, '{}'))$$,
  'every function fixes an empty search_path'
);

-- What row level security is for: a grant that somebody makes by mistake.

set local role service_role;
select lives_ok(
  $$select public.apply_billing_events('[
    {
      "provider": "a", "event_id": "tap_1", "type": "customer.subscription.created",
      "subscription_id": "tap_sub", "account_id": "acc_1", "plan_id": "plan_1",
      "current_period_end": "2027-02-01T00:00:00Z"
    },
    {
      "provider": "a", "event_id": "tap_2", "type": "invoice.payment_failed",
      "subscription_id": "tap_sub"
    }
  ]')$$,
  'service_role may call apply_billing_events'
);
select lives_ok(
  $$select public.record_failed_event('a', 'tap_3', '{}', 'text', 'event_invalid', 'Unreadable')$$,
  'service_role may call record_failed_event'
);
reset role;

select ok(
  exists (select from public.subscriptions where id = 'tap_sub')
    and exists (select from public.processed_events where event_id = 'tap_1')
    and exists (select from public.notifications where event_id = 'tap_2')
    and exists (select from public.failed_events where event_id = 'tap_3'),
  'as service_role they fill all four tables'
);

grant all on all tables in schema public to authenticated;
set local role authenticated;
select is_empty(
  $$select id from public.subscriptions
    union all select event_id from public.processed_events
    union all select event_id from public.failed_events
    union all select event_id from public.notifications
    union all select event_id from public.open_failures
    union all select type from public.billing_events_per_hour
    union all select 'counted' from public.billing_health
      where open_failures + notifications_pending > 0 or last_event_at is not null$$,
  'even with a grant, authenticated sees no row of any table, nor one through a view'
);
select throws_ok(
  $$insert into public.processed_events (provider, event_id, type) values ('a', 'tap_4', 'x')$$,
  '42501',
  'new row violates row-level security policy for table "processed_events"',
  'even with a grant, authenticated inserts nothing'
);
update public.subscriptions set status = 'active', account_id = 'acc_thief' where id = 'tap_sub';
delete from public.processed_events where event_id = 'tap_1';
reset role;

select is(
  (select account_id from public.subscriptions where id = 'tap_sub'), 'acc_1',
  'even with a grant, authenticated updates nothing'
);
select ok(
  exists (select from public.processed_events where event_id = 'tap_1'),
  'even with a grant, authenticated deletes nothing'
);

select * from finish();
rollback;
