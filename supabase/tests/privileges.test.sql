/*
 * Who may do what. Everything in schema billing is out of reach of anon and authenticated,
 * since they have no usage on it; what is granted to them in public, by default privileges,
 * a squash or a mistake, is worth nothing. Objects are read from the catalog, so a later
 * migration is held to the same rules.
 */
begin;
select plan(17);

create temporary view outsiders as
select rolname from pg_roles where rolname in ('anon', 'authenticated');

-- Runs a statement as a role. True if the role lacks a right; row level security, which
-- fails with the same code, does not count.
create function pg_temp.is_denied(role name, statement text)
returns boolean language plpgsql as $$
declare
  message text;
begin
  begin
    execute format('set local role %I', role);
    execute statement;
    raise exception 'The statement ran.' using errcode = 'ZZ000';
  exception
    when sqlstate 'ZZ000' then
      return false;
    when insufficient_privilege then
      get stacked diagnostics message = message_text;
      return message like 'permission denied for %';
    when others then
      return false;
  end;
end;
$$;

-- Every statement that a role could try. Functions get arguments with which they reach the table.
create temporary view attempts as
select r.relname::text as object, s.statement
from relations r
cross join unnest(array[
  'select from %1$I.%2$I',
  'insert into %1$I.%2$I default values',
  'update %1$I.%2$I set %3$I = %3$I',
  'delete from %1$I.%2$I',
  'truncate %1$I.%2$I'
]) as t (template)
-- The id of a notification is generated and cannot be set.
join pg_attribute a
  on a.attrelid = r.oid and a.attnum = case when r.relname ~ 'notifications' then 2 else 1 end,
  format(t.template, r.schema, r.relname, a.attname) as s (statement)
-- Views that cannot be written to fail for that reason.
where t.template ~ '^select'
  or (t.template !~ '^truncate' or r.relkind = 'r')
  and r.relname !~ '(events_per_hour|health|open_failures|subscription_items)$'

union all

select f.signature, format('select from %I.%I(%s)', f.schema, f.proname, a.arguments)
from functions f,
  lateral (
    select coalesce(string_agg(
      case format_type(t.type, null)
        when 'jsonb' then
          $v$'[{"place": 1, "provider": "a", "event_id": "e", "kind": "creation"}]'::jsonb$v$
        when 'uuid' then 'gen_random_uuid()'
        when 'integer' then '1'
        when 'text' then $v$'x'$v$
        else format('null::%s', format_type(t.type, null))
      end, ', ' order by t.place), '') as arguments
    from unnest(f.proargtypes) with ordinality as t (type, place)
  ) as a
where f.prorettype <> 'trigger'::regtype and f.prokind = 'f';

-- There is something to check, so the rules do not pass on nothing.
select cmp_ok(
  (select count(*)::integer from relations where relkind = 'r'),
  '>',
  9,
  'there are tables to check'
);
select cmp_ok(
  (select count(*)::integer from functions where schema = 'public'),
  '>',
  18,
  'there are functions that the API reaches'
);
select is((select count(*)::integer from outsiders), 2, 'there are two roles to keep out');

-- The rights as they are shipped.
select is_empty(
  $$
    select o.rolname, p
    from outsiders o, unnest(array['usage', 'create']) as p
    where has_schema_privilege(o.rolname, 'billing', p)
    union all
    select 'PUBLIC', a.privilege_type
    from pg_namespace n, aclexplode(n.nspacl) a
    where n.nspname = 'billing' and a.grantee = 0
  $$,
  'only the owner and service_role have rights on schema billing'
);
select is_empty(
  $$
    select r.relname, a.grantee::regrole
    from relations r, aclexplode(r.relacl) a
    where a.grantee not in (r.relowner, 'service_role'::regrole)
    union all
    select r.relname || '.' || c.attname, a.grantee::regrole
    from relations r
    join pg_attribute c on c.attrelid = r.oid, aclexplode(c.attacl) a
    -- Deliveries count purchases there.
    where (r.relname, c.attname, a.grantee) <> ('erasures', 'purchases', 'service_role'::regrole)
  $$,
  'only they have rights on a relation or a column'
);
select is_empty(
  $$
    select f.signature, a.grantee
    from functions f, aclexplode(f.acl) a
    where a.grantee not in (f.proowner, 'service_role'::regrole)
  $$,
  'only they may execute functions, and PUBLIC may execute none'
);
select is_empty(
  $$
    select o.rolname, a.*
    from outsiders o, attempts a
    where not pg_temp.is_denied(o.rolname, a.statement)
  $$,
  'every statement of anon and authenticated is denied'
);
select is_empty(
  $$select relname from relations where relkind in ('r', 'p') and not relrowsecurity$$,
  'every table has row level security'
);
select is_empty(
  $$select policyname from pg_policies where schemaname = 'billing' or tablename ~ '^billing_'$$,
  'no table has a policy'
);
select is_empty(
  $$
    select relname
    from relations
    where relkind = 'v' and 'security_invoker=true' <> all (coalesce(reloptions, '{}'))
  $$,
  'every view has the rights of its caller'
);
select set_eq(
  $$select signature from functions where prosecdef$$,
  array['billing.account_email(text)'],
  'every function but the one that reads auth.users has the rights of its caller'
);
select is_empty(
  $$
    select relname::text
    from relations
    where relowner <> 'postgres'::regrole
    union all
    select signature
    from functions
    where proowner <> 'postgres'::regrole
  $$,
  'everything belongs to postgres'
);

-- service_role has what it needs, and nothing else.
select set_eq(
  $$
    select r.schema || '.' || r.relname, a.rights
    from relations r,
      lateral (
        select coalesce(string_agg(lower(a.privilege_type), ', ' order by a.privilege_type), '')
          as rights
        from aclexplode(r.relacl) a
        where a.grantee = 'service_role'::regrole
      ) as a
    where a.rights <> case r.schema when 'billing' then 'insert, select, update' else 'select' end
  $$,
  $$
    values
      ('billing.processed_events', 'delete, insert, select, update'),
      ('billing.plan_features', 'delete, insert, select, update'),
      ('public.billing_plan_features', 'delete, insert, select, update'),
      ('billing.customers', 'delete, insert, select, update'),
      ('public.billing_customers', 'delete, insert, select, update'),
      ('billing.failed_events', 'delete, insert, select, update'),
      ('billing.installation', 'select'),
      ('billing.erasures', 'select'),
      ('billing.erasure_key', 'select'),
      ('public.billing_failed_events', 'select, update'),
      ('public.billing_notifications', 'select, update')
  $$,
  'service_role may read windows, and insert and update the rest, but for these'
);
select set_eq(
  $$
    select signature
    from functions
    where not has_function_privilege('service_role', oid, 'execute')
  $$,
  array[
    'billing.schedule_worker(text,text)',
    'billing.unschedule_worker()',
    'billing.prune(interval,interval,interval,integer)',
    'billing.erase_account(text,boolean)',
    'billing.forget_erasure(text,text)'
  ],
  'service_role may execute all functions but those for the SQL editor'
);
select ok(
  has_schema_privilege('service_role', 'billing', 'usage')
    and not has_schema_privilege('service_role', 'billing', 'create'),
  'service_role may use the schema, and create nothing in it'
);

-- Grants in public by mistake, by old default privileges, by a squash or a restored dump reach
-- nothing.
grant all on all tables in schema public to public, anon, authenticated;
grant execute on all functions in schema public to public, anon, authenticated;
select is_empty(
  $$
    select o.rolname, a.*
    from outsiders o, attempts a
    where not pg_temp.is_denied(o.rolname, a.statement)
      and a.object <> 'billing_default_grace()' -- reads nothing
  $$,
  'with all rights on everything in public, every statement is still denied'
);
select is_empty(
  $$
    select o.rolname, f.signature, f.proname
    from outsiders o, functions f
    where f.schema = 'billing' and has_function_privilege(o.rolname, f.oid, 'execute')
  $$,
  'a grant on all functions in public gives none in schema billing'
);

select * from finish();
rollback;
